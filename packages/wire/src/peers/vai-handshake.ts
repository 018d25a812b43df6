/** Errors of the `vai.rpc.v1` handshake (vai.hello, vai.hello.identity, vai.hello.version). */
import { BackplaneError, type JsonObject, type VaiPluginHello } from "@backplane/contract";
import { checkPluginHello, VAI_PROTOCOL } from "./check-vai.ts";

export interface PluginIdentity {
  package_id: string;
  version: string;
}

export function findHelloError(frame: JsonObject, expected: PluginIdentity): BackplaneError | undefined {
  if (typeof frame.protocol === "string" && frame.protocol !== VAI_PROTOCOL) {
    const protocol = frame.protocol.slice(0, 64);
    return new BackplaneError(
      "protocol_version_mismatch",
      `The plugin uses protocol ${JSON.stringify(protocol)}, but this host uses ${VAI_PROTOCOL}.`,
      { details: { expected: VAI_PROTOCOL, got: protocol } },
    );
  }
  const problem = frame.protocol === VAI_PROTOCOL ? checkPluginHello(frame) : "protocol is missing";
  if (problem !== undefined) {
    return new BackplaneError("handshake_failed", `The plugin's hello is not valid: ${problem}.`);
  }
  return findIdentityError((frame as unknown as VaiPluginHello).plugin, expected);
}

function findIdentityError(actual: PluginIdentity, expected: PluginIdentity): BackplaneError | undefined {
  if (actual.package_id === expected.package_id && actual.version === expected.version) return undefined;
  const reported = { package_id: actual.package_id.slice(0, 128), version: actual.version.slice(0, 64) };
  return new BackplaneError(
    "handshake_failed",
    `The plugin identifies itself as ${reported.package_id} ${reported.version}, but ${expected.package_id} ${expected.version} is installed.`,
    {
      details: { reason: "identity", expected, got: reported },
      fix: "Make the plugin report the package_id and version of its manifest.",
    },
  );
}

/** Output before the hello that cannot be decoded is a failed handshake; `details` contain the output. */
export function asHandshakeFailure(error: BackplaneError): BackplaneError {
  const stray = error.details?.stray_output;
  const message =
    typeof stray === "string" && stray !== ""
      ? `The plugin's first output is not a frame: ${JSON.stringify(stray)}.`
      : `The plugin's first output is not a valid frame: ${error.message}`;
  return new BackplaneError("handshake_failed", message, {
    ...(error.details === undefined ? {} : { details: error.details }),
    fix: "Print logs to stderr; stdout carries only frames.",
    cause: error,
  });
}

/** `stray_output` is the output that the plugin printed instead of a frame. */
export function missingHelloError(waited_ms: number, stray_output: string): BackplaneError {
  return new BackplaneError("handshake_failed", `The plugin did not send a hello within ${waited_ms} ms.`, {
    details: { waited_ms, ...(stray_output === "" ? {} : { stray_output }) },
  });
}

export function closedOutputError(cause: Error | null, stray_output: string): BackplaneError {
  return new BackplaneError("crashed", "The plugin closed its output.", {
    ...(stray_output === "" ? {} : { details: { stray_output } }),
    ...(cause === null ? {} : { cause }),
  });
}
