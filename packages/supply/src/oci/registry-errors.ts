import { BackplaneError } from "@backplane/contract";

/** For a registry that violates the protocol or exceeds a limit. */
export function invalidResponse(registry: string, problem: string): BackplaneError {
  return new BackplaneError("registry.invalid", `${registry} ${problem}.`, { details: { registry } });
}

export function unreachableRegistry(
  registry: string,
  problem: string,
  cause?: unknown,
  more: { status?: number } = {},
): BackplaneError {
  return new BackplaneError("registry.unreachable", `${registry} cannot be used: ${problem}.`, {
    details: { registry, ...more },
    ...(cause === undefined ? {} : { cause }),
  });
}

/** For bytes that do not match the digest in the reference, a manifest or a signature. */
export function digestMismatch(what: string, expected: string, actual: string): BackplaneError {
  return new BackplaneError(
    "package.digest_mismatch",
    `${what} does not have the expected content: expected ${expected}, actual ${actual}.`,
    { details: { what, expected, actual } },
  );
}
