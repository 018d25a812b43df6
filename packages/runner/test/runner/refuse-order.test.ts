import { expect, test } from "vitest";
import { createDialects } from "../../src/dialects/create-dialects.ts";
import { refuseOrder } from "../../src/runner/refuse-order.ts";
import { createConfinement } from "../../src/sandbox/confinement.ts";
import { orderOf, side, vai } from "../support/order.ts";

const dialectFor = createDialects({ outbound: {} });
const none = createConfinement(null);

/** Without a sandbox, where the most orders are refused. */
function codeFor(change: ReturnType<typeof vai>, over: object = {}, unfit: string | null = null) {
  const order = { ...orderOf(change), ...over };
  return refuseOrder(order, unfit, dialectFor(order.package.runtime.protocol), none)?.code ?? null;
}

test("refuses each unsupported order with its code and checks the class before the dialect", () => {
  expect(codeFor(vai("echo"))).toBeNull();
  expect(codeFor(side("ok"))).toBeNull();
  expect(codeFor(vai("echo", { class: "inline" }))).toBe("class.unsupported");
  expect(codeFor(vai("echo", { class: "isolated" }))).toBe("sandbox.unavailable");
  expect(codeFor(vai("echo"), {}, "it is not for this")).toBe("launch_failed");
  const order = orderOf(vai("echo"));
  const unknown = { ...order.package, runtime: { ...order.package.runtime, protocol: "x" as never } };
  expect(codeFor(vai("echo"), { package: unknown })).toBe("launch_failed");
  expect(codeFor(vai("echo"), { package: unknown, class: "isolated" })).toBe("sandbox.unavailable");
  const module = { ...order.package, runtime: { ...order.package.runtime, protocol: "module.instrument" } };
  expect(codeFor(vai("echo"), { package: module, class: "isolated" })).toBe("plugin.untrusted");
  const secret_env = { ...order.grant, secret_env: { TOKEN: "token" } };
  expect(codeFor(vai("echo"), { grant: secret_env })).toBe("sandbox.unavailable");
});
