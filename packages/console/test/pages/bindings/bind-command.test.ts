import type { BindingCreate, BindingPolicy } from "@backplane/contract";
import { expect, test } from "vitest";
import { bindCommand } from "../../../src/pages/bindings/bind-command.ts";
import { undocumentedFlags } from "../../support/documented-flags.ts";

const BINDING: BindingCreate = { package_id: "acme/desk", package_version: "1.0.0", export_id: "look" };
const flagsOf = (changes: Partial<BindingCreate>) => bindCommand({ ...BINDING, ...changes }).words.slice(5);
const flagsOfPolicy = (policy: BindingPolicy) => flagsOf({ policy });

test("shows the package and the export of a binding without settings", () => {
  const { words, missing } = bindCommand({ ...BINDING, config: {}, secrets: {}, policy: {} });
  expect(words).toEqual(["backplane", "binding", "create", "acme/desk@1.0.0", "look"]);
  expect(missing).toEqual([]);
});

test("shows the scope, the configuration and the secrets of the binding", () => {
  expect(flagsOf({ org_wide: true })).toEqual(["--org-wide"]);
  expect(flagsOf({ config: { city: "Rome" }, secrets: { token: "secret://org_local/desk" } })).toEqual([
    "--config",
    '{"city":"Rome"}',
    "--secret",
    "token=desk",
  ]);
});

test("shows every field of the policy that has a flag", () => {
  const policy: Required<
    Omit<BindingPolicy, "approval_timeout_ms" | "permissions" | "secret_env" | "deliveries">
  > = {
    class: "worker",
    approval: "always",
    timeout_ms: 5_000,
    allowed_domains: ["a.test", "b.test"],
    capabilities: ["fs", "net"],
    mounts: [
      { source: "/home/me/notes", target: "/data/notes", writable: true },
      { source: "/srv", target: "/data/srv", writable: false },
    ],
    host_target: true,
    sampling: { max_tokens: 1_000, per_hour: 20 },
  };
  const { words, missing } = bindCommand({ ...BINDING, policy, org_wide: true });
  expect(missing).toEqual([]);
  expect(undocumentedFlags(words)).toEqual([]);
  expect(words.slice(5)).toEqual([
    "--class",
    "worker",
    "--approval",
    "always",
    "--timeout",
    "5000",
    "--domains",
    "a.test,b.test",
    "--capabilities",
    "fs,net",
    "--mount",
    "/home/me/notes:/data/notes:rw",
    "--mount",
    "/srv:/data/srv",
    "--host-target",
    "--sampling",
    "1000:20",
    "--org-wide",
  ]);
  expect(flagsOfPolicy({ host_target: false })).toEqual(["--no-host-target"]);
});

test("names the fields of the policy that no flag sets", () => {
  const missingOf = (policy: BindingPolicy) => bindCommand({ ...BINDING, policy }).missing;
  expect(missingOf({ class: "worker", deliveries: { concurrency: 2 }, secret_env: {} })).toEqual([
    "deliveries",
    "secret_env",
  ]);
  expect(missingOf({ mounts: [{ source: "/a:b", target: "/data", writable: false }] })).toEqual(["mounts"]);
});
