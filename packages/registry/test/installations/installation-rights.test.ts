/** The rights to install, to bind and to choose the name of a server. */
import type { Caller } from "@backplane/ports";
import { admin, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import {
  createInstaller,
  expectNothingStored,
  type Installer,
  kitFiles,
  mcpJson,
  openSqlite,
} from "./installer.ts";

const operator: Caller = { ...admin, actor: "key_operator", admin: false, scopes: ["packages:write"] };

test("requires the bindings scope only for an installation that binds, and the host's admin for a folder", async () => {
  const installer = await createInstaller(await openSqlite());
  const server = {
    kind: "mcp_url",
    name: "far",
    url: "https://far.invalid/mcp",
    headers: {},
    secret_slots: [],
  };
  const source = server as Parameters<Installer["install"]>[0];
  await expect(installer.install(source, {}, operator)).rejects.toMatchObject({
    code: "auth.scope",
    details: { needs: "bindings:write" },
  });
  await expectNothingStored(installer);
  expect((await installer.install(source, { bind: false }, operator)).bindings).toEqual([]);
  const binder: Caller = { ...operator, scopes: ["packages:write", "bindings:write"] };
  expect((await installer.install(source, {}, binder)).bindings).toHaveLength(1);
  await expect(installer.install(source, { org_wide: true }, binder)).rejects.toMatchObject({
    code: "policy.denied",
  });
  const folder = { kind: "folder", path: installer.writeFolder("kit", kitFiles("1.0.0")) } as const;
  const org_admin: Caller = { ...admin, actor: "key_admin" };
  const npm = { kind: "npm" as const, spec: "acme-server", args: [], secret_slots: [] };
  const { installations } = installer.fixture.kernel;
  for (const refused of [
    installer.install(folder, {}, org_admin),
    installations.inspect(org_admin, folder),
    installations.inspect(binder, npm),
  ])
    await expect(refused).rejects.toMatchObject({ code: "package.source_forbidden" });
  await expect(installations.inspect(binder, npm)).rejects.toMatchObject({
    message: "Only an admin credential may install from a registry.",
    fix: "Upload a packed archive, or ask an admin to install it.",
  });
  await expect(installer.install(source, {}, { ...user, role: "guest" })).rejects.toMatchObject({
    code: "policy.denied",
  });
  expect(await installer.install(folder, { bind: true })).toMatchObject({
    packages: [{ package: { origin: "folder" } }],
  });
});

test("refuses the same name for servers installed together, and lets only an admin name a server", async () => {
  const installer = await createInstaller(await openSqlite());
  const far = { url: "https://far.invalid/mcp" };
  const named = { config: { name: "both" } };
  await expect(installer.install(mcpJson({ a: far, b: far }), named)).rejects.toMatchObject({
    code: "binding.conflict",
    details: { free_name: "both-2" },
  });
  await expectNothingStored(installer);
  const binder: Caller = { ...user, scopes: ["packages:write", "bindings:write"] };
  await expect(installer.install(mcpJson({ a: far }), named, binder)).rejects.toMatchObject({
    code: "policy.denied",
  });
  await expectNothingStored(installer);
  expect((await installer.install(mcpJson({ a: far, b: far }), {}, binder)).bindings).toHaveLength(2);
});
