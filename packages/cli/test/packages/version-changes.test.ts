import type { Binding, Package } from "@backplane/contract";
import { expect, test } from "vitest";
import type { CommandContext } from "../../src/context/context.ts";
import { findReplacedVersions } from "../../src/packages/version-changes.ts";

const createPackage = (version: string, package_id = "acme/kit") =>
  ({ package_id, version }) as unknown as Package;

function createBinding(package_version: string, change: object = {}): Binding {
  const rollout = { traffic_percent: 100 };
  return { package_id: "acme/kit", package_version, rollout, ...change } as unknown as Binding;
}

function createContext(bound: Binding[], installed: Package[]): CommandContext {
  const list = (items: object[]) => ({ list: async () => ({ items, next: null }) });
  const client = { bindings: list(bound), packages: list(installed) };
  return { client: () => client } as unknown as CommandContext;
}

test("compares with the versions that bindings use or have just left, and not with an ended share", async () => {
  const versions = ["0.1.0", "0.2.0", "0.3.0", "0.4.0"].map((version) => createPackage(version));
  const installed = [...versions, createPackage("0.1.0", "other/kit")];
  const share = createBinding("0.3.0", { share_of: "bind_1", rollout: { traffic_percent: 0 } });
  const context = createContext([createBinding("0.2.0"), share, createBinding("0.4.0")], installed);
  const moved = createBinding("0.4.0", { previous: { package_version: "0.1.0" } });
  const find = async (bindings: Binding[]) =>
    (await findReplacedVersions(context, createPackage("0.4.0"), bindings)).map(({ version }) => version);
  expect(await find([])).toEqual(["0.2.0"]);
  expect(await find([moved])).toEqual(["0.1.0", "0.2.0"]);
});
