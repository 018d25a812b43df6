/** The right to choose the names that policies match tools by: names of servers, and names of exported tools. */
import type { BindingCreate, Manifest, Policy } from "@backplane/contract";
import type { Caller } from "@backplane/ports";
import { manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import {
  admin,
  createTestKernel,
  owner,
  scope,
  type TestKernel,
  user,
} from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";

const server = (package_id: string, version = "0.1.0"): Manifest =>
  manifest([], {
    package_id,
    version,
    runtime: { protocol: "mcp.stdio", entrypoint: ["node", "server.js"] },
  });

const DENIED = { code: "policy.denied" };

async function bindAs(
  { kernel, importer }: TestKernel,
  caller: Caller,
  content: Manifest,
  more: Partial<BindingCreate> = {},
) {
  await kernel.packages.install(admin, importer.add(content));
  const { package_id, version, exports } = content;
  const body = { package_id, package_version: version, export_id: exports[0]?.id ?? "*", ...more };
  return await kernel.bindings.create(caller, body);
}

const setPolicy = ({ kernel }: TestKernel, patch: Policy) => kernel.policy.patch(owner, "org", patch);

verifies("server.names", "lets only an admin set or change the name of a server", async () => {
  const fixture = await createTestKernel();
  const { bindings } = fixture.kernel;
  const named = (name: string) => ({ config: { name } });
  await expect(bindAs(fixture, user, server("acme/filer"), named("other"))).rejects.toMatchObject(DENIED);
  const { binding_id } = await bindAs(fixture, user, server("acme/filer"));
  // A server whose name is set no longer repeats it in the names of its tools, so setting the default name renames them.
  for (const name of ["renamed", "filer"])
    await expect(bindings.patch(user, binding_id, named(name), undefined)).rejects.toMatchObject(DENIED);
  await bindings.patch(admin, binding_id, named("renamed"), undefined);
  const removed = bindings.patch(user, binding_id, { config: { env: { A: "1" } } }, undefined);
  await expect(removed).rejects.toMatchObject({ ...DENIED, fix: expect.stringContaining("renamed") });
  const config = { name: "renamed", env: { A: "1" } };
  expect((await bindings.patch(user, binding_id, { config }, undefined)).config).toEqual(config);
  const share = { rollout: { traffic_percent: 10 } };
  const second = await bindAs(fixture, user, server("acme/filer", "0.2.0"), share);
  expect(second.config.name).toBe("renamed");
});

test("lets any operator change the setting `name` of a package that is not a server", async () => {
  const fixture = await createTestKernel();
  const bound = await bindAs(fixture, user, manifest([toolExport("echo")]), { config: { name: "a" } });
  const body = { config: { name: "b" } };
  expect((await fixture.kernel.bindings.patch(user, bound.binding_id, body, undefined)).config).toEqual(
    body.config,
  );
});

test.each<[string, Policy, string]>([
  ["lowers the risk of its tools", { risks: { "mcp_trusted_*": "low" } }, "mcp_trusted_*"],
  ["lowers the risk of one tool", { risks: { mcp_trusted_read: "medium" } }, "mcp_trusted_read"],
  [
    "lowers the risk of a server with a longer name",
    { risks: { "mcp_trusted_two_*": "low" } },
    "mcp_trusted_two_*",
  ],
  ["allows its tools to a role", { roles: { guest: { allow: { tools: ["mcp_trust*"] } } } }, "mcp_trust*"],
])(
  "does not let a user bind a server whose name a policy matches: the policy %s",
  async (_what, policy, pattern) => {
    const fixture = await createTestKernel();
    await setPolicy(fixture, policy);
    await expect(bindAs(fixture, user, server("mine/trusted"))).rejects.toMatchObject({
      ...DENIED,
      message: expect.stringContaining(pattern),
    });
    expect((await bindAs(fixture, user, server("mine/other"))).status).toBe("active");
    expect((await bindAs(fixture, admin, server("mine/trusted"))).status).toBe("active");
  },
);

test("lets a user bind a server that only patterns for all tools, denials and higher risks match", async () => {
  const fixture = await createTestKernel();
  const deny = { tools: ["mcp_plain_*"] };
  await setPolicy(fixture, {
    risks: { "*": "low", "mcp_*": "medium", "*_read": "low", "mcp_plain_*": "critical" },
    roles: { user: { deny } },
  });
  expect((await bindAs(fixture, user, server("mine/plain"))).status).toBe("active");
});

test("does not let a user bind a tool whose name a policy trusts or another package has", async () => {
  const fixture = await createTestKernel();
  await setPolicy(fixture, { risks: { "search_*": "low" } });
  const tool = (id: string, package_id: string, version = "0.1.0") =>
    manifest([toolExport(id)], { package_id, version });
  await expect(bindAs(fixture, user, tool("search_web", "mine/a"))).rejects.toMatchObject(DENIED);
  await expect(bindAs(fixture, user, tool("search_web", "mine/a"), { export_id: "*" })).rejects.toMatchObject(
    DENIED,
  );
  await bindAs(fixture, admin, tool("search_web", "acme/web"), { org_wide: true });
  await bindAs(fixture, admin, tool("fetch", "acme/fetch"), { org_wide: true });
  // A project's binding would replace that of the org.
  await expect(bindAs(fixture, user, tool("fetch", "mine/fetch"))).rejects.toMatchObject({
    ...DENIED,
    message: expect.stringContaining("acme/fetch"),
  });
  const first = await bindAs(fixture, user, tool("own", "mine/own"));
  const upgraded = await bindAs(fixture, user, tool("own", "mine/own", "0.2.0"));
  expect(upgraded.binding_id).toBe(first.binding_id);
});

verifies(
  "server.names",
  "refuses a server name that is used in the same scope, and suggests a free one",
  async () => {
    const fixture = await createTestKernel();
    const { bindings } = fixture.kernel;
    const first = await bindAs(fixture, admin, server("acme/filer"));
    const conflict = {
      code: "binding.conflict",
      message: expect.stringContaining(`${first.binding_id} (acme/filer)`),
      fix: expect.stringContaining("filer-2"),
      details: { binding_id: first.binding_id, free_name: "filer-2" },
    };
    await expect(bindAs(fixture, admin, server("other/filer"))).rejects.toMatchObject(conflict);
    const second = await bindAs(fixture, admin, server("other/filer"), { config: { name: "filer-2" } });
    for (const name of ["filer", "Filer"])
      await expect(
        bindings.patch(admin, second.binding_id, { config: { name } }, undefined),
      ).rejects.toMatchObject({ ...conflict, fix: expect.stringContaining("-3"), details: {} });
    // A server may keep its own name.
    await bindings.patch(
      admin,
      second.binding_id,
      { config: { name: "filer-2", env: { A: "1" } } },
      undefined,
    );
    const upgraded = await bindAs(fixture, admin, server("acme/filer", "0.2.0"));
    expect(upgraded.binding_id).toBe(first.binding_id);
  },
);

test("lets an admin, but not a user, give a project's server the name of an org's server", async () => {
  const fixture = await createTestKernel();
  const { binding_id } = await bindAs(fixture, admin, server("acme/filer"), { org_wide: true });
  await expect(bindAs(fixture, user, server("mine/filer"))).rejects.toMatchObject({
    ...DENIED,
    message: expect.stringContaining(binding_id),
  });
  expect((await bindAs(fixture, admin, server("mine/filer"))).scope).toEqual(scope);
});

test("lets a user bind a package of the org in a project only under the name that it has in the org", async () => {
  const fixture = await createTestKernel();
  const named = { config: { name: "files" } };
  await bindAs(fixture, admin, server("acme/filer"), { ...named, org_wide: true });
  await expect(bindAs(fixture, user, server("acme/filer"))).rejects.toMatchObject({
    ...DENIED,
    message: expect.stringContaining("files"),
  });
  expect((await bindAs(fixture, user, server("acme/filer"), named)).scope).toEqual(scope);
});

verifies(
  "server.names",
  "gives a name to only one of the servers that are bound at the same time",
  async () => {
    const fixture = await createTestKernel();
    for (let round = 0; round < 5; round++) {
      const name = `round${round}`;
      const results = await Promise.allSettled([
        bindAs(fixture, user, server(`one/${name}`)),
        bindAs(fixture, user, server(`two/${name}`)),
        bindAs(fixture, admin, server(`three/other${round}`), { config: { name } }),
      ]);
      expect(results.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
      for (const result of results)
        if (result.status === "rejected") expect(result.reason).toMatchObject({ code: "binding.conflict" });
    }
  },
);

test("gives a name to only one of the servers that an admin renames at the same time", async () => {
  const fixture = await createTestKernel();
  const { bindings } = fixture.kernel;
  const ids = [];
  for (const package_id of ["one/a", "two/b", "three/c"])
    ids.push((await bindAs(fixture, admin, server(package_id))).binding_id);
  const renames = ids.map((id) => bindings.patch(admin, id, { config: { name: "wanted" } }, undefined));
  const results = await Promise.allSettled(renames);
  expect(results.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
});

test("binds servers with different names at the same time", async () => {
  const fixture = await createTestKernel();
  const all = Array.from({ length: 8 }, (_, n) => bindAs(fixture, user, server(`acme/server${n}`)));
  expect(await Promise.all(all)).toHaveLength(8);
});

verifies("server.names", "lets only an admin remove a server that an admin has named", async () => {
  const fixture = await createTestKernel();
  const { bindings } = fixture.kernel;
  const named = await bindAs(fixture, admin, server("acme/filer"), { config: { name: "guarded" } });
  await expect(bindings.remove(user, named.binding_id)).rejects.toMatchObject({
    ...DENIED,
    fix: expect.stringContaining(`backplane binding disable ${named.binding_id}`),
  });
  // Otherwise the user could bind it again under a name that no policy mentions.
  await expect(bindAs(fixture, user, server("acme/filer"))).rejects.toMatchObject(DENIED);
  await bindings.patch(user, named.binding_id, { status: "disabled" }, undefined);
  await bindings.remove(admin, named.binding_id);
  const unnamed = await bindAs(fixture, user, server("acme/filer"));
  await bindings.remove(user, unnamed.binding_id);
});

test("lets either a user remove a server or an admin name it at the same time, not both", async () => {
  const fixture = await createTestKernel();
  const { bindings } = fixture.kernel;
  for (let round = 0; round < 5; round++) {
    const { binding_id } = await bindAs(fixture, user, server(`acme/filer${round}`));
    const naming = bindings.patch(admin, binding_id, { config: { name: `guarded${round}` } }, undefined);
    const [named, removed] = await Promise.allSettled([naming, bindings.remove(user, binding_id)]);
    expect([named.status, removed.status].filter((status) => status === "fulfilled")).toHaveLength(1);
  }
});
