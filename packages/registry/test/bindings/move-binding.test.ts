import { admin, createTestKernel, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import {
  buildServerManifest,
  createSignInKernel,
  SERVER,
  signIn,
} from "../../../servers/test/sign-ins/sign-in-kernel.ts";
import { readStoredSignIn } from "../../src/secrets/sign-in-record.ts";

const withVersionAndUrl = (server: typeof SERVER, version: string, url: string) => ({
  ...server,
  version,
  runtime: { ...server.runtime, entrypoint: [url] },
});
const OLD = "https://old.example/mcp";
const NEW = "https://new.example/mcp";

verifies(
  "sec.credential-destination",
  "drops headers when the server's address changes, and refuses the move unless the change sets the secrets",
  async () => {
    const fixture = await createTestKernel();
    const { bindings, packages, secrets } = fixture.kernel;
    const ref = (await secrets.put(admin, "notes", "for-the-old-server")).ref;
    const server = buildServerManifest(["authorization"]);
    const settings = { secrets: { authorization: ref }, config: { headers: { "x-team": "blue" } } };
    const { binding_id } = await fixture.bind(withVersionAndUrl(server, "1.0.0", OLD), settings);
    for (const [version, url] of [
      ["1.1.0", OLD],
      ["2.0.0", NEW],
      ["3.0.0", OLD],
    ] as const) {
      await packages.install(admin, fixture.importer.add(withVersionAndUrl(server, version, url)));
    }
    const patch = (package_version: string, more: object = {}) =>
      bindings.patch(user, binding_id, { package_version, ...more }, undefined);
    expect(await patch("1.1.0")).toMatchObject({ ...settings, status: "active" });
    // The move is refused while a slot would lose its secret and the change sets none.
    await expect(patch("2.0.0")).rejects.toMatchObject({ code: "binding.invalid" });
    expect(await bindings.get(user, binding_id)).toMatchObject({ ...settings, package_version: "1.1.0" });
    const upgrade = bindings.upgrade(user, { package_id: server.package_id, package_version: "2.0.0" });
    await expect(upgrade).rejects.toMatchObject({ code: "binding.invalid" });
    const { secrets: old_secrets } = settings;
    // A client that sends the old settings back has not chosen them for the server at the other address.
    await expect(patch("2.0.0", settings)).rejects.toMatchObject({ code: "binding.invalid" });
    const added = { ...settings, config: { headers: { ...settings.config.headers, "x-new": "1" } } };
    const moved = await patch("2.0.0", { ...added, changes: { secrets: old_secrets } });
    expect(moved.secrets).toEqual(old_secrets);
    expect(moved.config).toEqual({ headers: { "x-new": "1" } });
    await bindings.rollback(user, binding_id);
    // The settings of an upgrade are not a copy of the binding, so all of them are chosen.
    const chosen = { bindings: { "*": { ...settings } } };
    const [upgraded] = await bindings.upgrade(user, {
      package_id: server.package_id,
      package_version: "2.0.0",
      ...chosen,
    });
    expect(upgraded).toMatchObject(settings);
    await bindings.rollback(user, binding_id);
    const without_headers = await patch("2.0.0", { changes: { secrets: old_secrets } });
    expect(without_headers).toMatchObject({ secrets: old_secrets, config: {} });
    expect(without_headers.config).not.toHaveProperty("headers");
    // A share binding for a server at another address also starts without credentials.
    const share = { package_version: "3.0.0", export_id: "*", rollout: { traffic_percent: 10 } };
    const share_binding = await bindings.create(user, { package_id: server.package_id, ...share });
    expect(share_binding).toMatchObject({
      secrets: {},
      status: "inactive",
      unbound_slots: ["authorization"],
    });
  },
);

verifies("sec.credential-destination", "removes the sign-in when the server's address changes", async () => {
  const { as, fixture, binding_id } = await createSignInKernel();
  await signIn(fixture, as, binding_id);
  const { packages, bindings, signIns } = fixture.kernel;
  expect((await signIns.get(admin, binding_id)).status).toBe("signed_in");
  await packages.install(admin, fixture.importer.add(withVersionAndUrl(SERVER, "0.2.0", NEW)));
  await bindings.patch(admin, binding_id, { package_version: "0.2.0" }, undefined);
  expect((await readStoredSignIn(fixture.deps, "org_local", binding_id))?.record.session ?? null).toBeNull();
  expect((await signIns.get(admin, binding_id)).status).not.toBe("signed_in");
});
