import { expect, test } from "vitest";
import { createDialects } from "../../src/dialects/create-dialects.ts";
import { refuseRequest } from "../../src/runner/refuse-request.ts";
import { createConfinement } from "../../src/sandbox/confinement.ts";
import { requestOf, side, vai } from "../support/request.ts";

const dialectFor = createDialects({ outbound: {} });
const no_sandbox = createConfinement(null);

/** The error code of a request on a host without a sandbox; null if the request may run. */
function codeFor(change: ReturnType<typeof vai>, overrides: object = {}, unsupported: string | null = null) {
  const request = { ...requestOf(change), ...overrides };
  return (
    refuseRequest(request, unsupported, dialectFor(request.package.runtime.protocol), no_sandbox)?.code ??
    null
  );
}

test("refuses each unsupported request with its code and checks the class before the dialect", () => {
  expect(codeFor(vai("echo"))).toBeNull();
  expect(codeFor(side("ok"))).toBeNull();
  expect(codeFor(vai("echo", { class: "inline" }))).toBe("class.unsupported");
  expect(codeFor(vai("echo", { class: "isolated" }))).toBe("sandbox.unavailable");
  expect(codeFor(vai("echo"), {}, "it is not for this")).toBe("launch_failed");
  const request = requestOf(vai("echo"));
  const unknown = { ...request.package, runtime: { ...request.package.runtime, protocol: "x" as never } };
  expect(codeFor(vai("echo"), { package: unknown })).toBe("launch_failed");
  expect(codeFor(vai("echo"), { package: unknown, class: "isolated" })).toBe("sandbox.unavailable");
  const module = {
    ...request.package,
    runtime: { ...request.package.runtime, protocol: "module.instrument" },
  };
  expect(codeFor(vai("echo"), { package: module, class: "isolated" })).toBe("plugin.untrusted");
  const secret_env = { ...request.grant, secret_env: { TOKEN: "token" } };
  expect(codeFor(vai("echo"), { grant: secret_env })).toBe("sandbox.unavailable");
});
