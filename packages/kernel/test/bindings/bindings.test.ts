import { BindingPolicySchema, BindingSchema, ToolExportSchema } from "@backplane/contract/schema";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import type { Caller } from "../../src/ports/index.ts";
import { admin, openHouse, scope, user } from "../support/house.ts";
import { manifest, tool } from "../support/manifests.ts";

const jira = manifest(
  [
    tool("jira_search", {
      config_schema: "schemas/config.json",
      permissions: { network: "egress", secret_slots: ["jira_token"] },
    }),
  ],
  {},
);
const schemas = {
  "schemas/config.json": {
    type: "object",
    required: ["base_url"],
    properties: { base_url: { type: "string" }, max_results: { type: "integer", maximum: 50 } },
    additionalProperties: false,
  },
};
const config = { base_url: "https://acme.atlassian.net", max_results: 10 };
const orgAdmin: Caller = { ...admin, actor: "key_org", admin: false, scope: { ...scope, project_id: null } };

verifies("bind.record", "a binding records what was bound, where, how and under which policy", async () => {
  const house = await openHouse();
  await house.kernel.secrets.put(admin, "jira_token", "s3cr3t-value");
  const policy = {
    timeout_ms: 5_000,
    approval: "never" as const,
    allowed_domains: ["acme.atlassian.net"],
    mounts: [{ source: "/srv/data", target: "/data", writable: false }],
    permissions: { filesystem: "none" as const },
    class: "isolated" as const,
  };
  const made = await house.bind(
    jira,
    {
      config,
      secrets: { jira_token: "secret://org_local/jira_token" },
      rollout: { traffic_percent: 50 },
      policy,
    },
    schemas,
  );
  const read = await house.kernel.bindings.get(user, made.binding_id);
  expect(BindingSchema.parse(read)).toEqual(read);
  expect(read).toMatchObject({
    binding_id: expect.stringMatching(/^bind_/),
    package_id: "acme/devkit",
    package_version: "0.1.0",
    export_id: "jira_search",
    scope,
    config,
    secrets: { jira_token: "secret://org_local/jira_token" },
    status: "active",
    rollout: { traffic_percent: 50 },
    policy,
    generation: 1,
  });
  const off = await house.kernel.bindings.patch(admin, made.binding_id, { status: "disabled" }, 1);
  expect(off).toMatchObject({ status: "disabled", generation: 2 });
  const bare = await house.kernel.bindings.patch(
    admin,
    made.binding_id,
    { status: "active", secrets: {} },
    2,
  );
  expect(bare).toMatchObject({ status: "inactive", unbound_slots: ["jira_token"] });
});

verifies(
  "bind.config",
  "config is checked at create, patch and validate; an unbound slot is named",
  async () => {
    const house = await openHouse();
    await expect(house.bind(jira, { config: { max_results: 99 } }, schemas)).rejects.toMatchObject({
      code: "binding.invalid",
      details: { issues: expect.arrayContaining([expect.objectContaining({ path: "/config/max_results" })]) },
    });
    const made = await house.bind(jira, { config }, schemas);
    expect(made).toMatchObject({ status: "inactive", unbound_slots: ["jira_token"] });
    const id = made.binding_id;
    await expect(house.call({ binding_id: id })).rejects.toMatchObject({
      code: "binding.not_active",
      details: { unbound: ["jira_token"] },
    });
    await expect(house.kernel.bindings.patch(admin, id, { config: {} }, undefined)).rejects.toMatchObject({
      code: "binding.invalid",
    });
    expect(await house.kernel.bindings.validate(user, id)).toMatchObject({
      valid: false,
      status: "inactive",
      unbound_slots: ["jira_token"],
      issues: [],
    });
    await house.kernel.secrets.put(admin, "jira_token", "s3cr3t-value");
    const secrets = { jira_token: "secret://org_local/jira_token" };
    const active = await house.kernel.bindings.patch(admin, id, { secrets }, undefined);
    expect(active).toMatchObject({ status: "active", unbound_slots: [] });
    expect(await house.kernel.bindings.validate(user, id)).toMatchObject({ valid: true, issues: [] });
    // A row whose config no longer fits, as after a schema change by hand, is found by validate.
    await house.store.bindings.update(
      { ...active, config: { base_url: 7 }, generation: 9 },
      active.generation,
      {},
    );
    expect(await house.kernel.bindings.validate(user, id)).toMatchObject({
      valid: false,
      issues: [{ path: "/config/base_url" }],
    });
  },
);

verifies("bind.scope", "a project's binding overrides the org's, and strangers find nothing", async () => {
  const house = await openHouse();
  const content = manifest([tool("echo")]);
  const org = await house.bind(content, { org_wide: true, policy: { timeout_ms: 1_111 } });
  const other: Caller = { ...user, scope: { org_id: "org_local", project_id: "proj_other" } };
  expect((await house.call({ export_id: "echo" })).binding_id).toBe(org.binding_id);
  const own = await house.kernel.bindings.create(admin, {
    package_id: "acme/devkit",
    package_version: "0.1.0",
    export_id: "echo",
  });
  expect((await house.call({ export_id: "echo" })).binding_id).toBe(own.binding_id);
  expect((await house.call({ export_id: "echo" }, other)).binding_id).toBe(org.binding_id);
  const mine = await house.call({ export_id: "echo" });
  const stranger: Caller = { ...user, scope: { org_id: "org_far", project_id: "proj_default" } };
  const told = async (work: Promise<unknown>) =>
    await work.then(
      () => "found",
      (error: { code: string; message: string; details?: unknown }) => [
        error.code,
        error.message,
        error.details,
      ],
    );
  const { bindings, invocations } = house.kernel;
  for (const caller of [other, stranger]) {
    const asks = (id: string) => [bindings.get(caller, id), bindings.validate(caller, id)];
    const real = await Promise.all(asks(own.binding_id).map(told));
    const missing = await Promise.all(asks("bind_00000000000000000000000000").map(told));
    expect(real).toEqual(missing);
    expect(real[0]).toEqual(["binding.not_found", "There is no such binding.", undefined]);
    expect(await told(invocations.invoke(caller, { binding_id: own.binding_id }))).toEqual(missing[0]);
    expect(await told(invocations.get(caller, mine.id))).toEqual(
      await told(invocations.get(caller, "inv_00000000000000000000000000")),
    );
  }
});

verifies(
  "secret.slots",
  "secrets of undeclared slots, missing ones and another org's are refused alike",
  async () => {
    const house = await openHouse();
    const far: Caller = { ...admin, scope: { org_id: "org_far", project_id: null } };
    await house.kernel.secrets.put(far, "jira_token", "far-away-value");
    const bad = async (secrets: Record<string, string>) =>
      await house
        .bind(jira, { config, secrets }, schemas)
        .catch((error: { details: unknown }) => error.details);
    const issue = (path: string, message: string) => ({ issues: [{ path, message }] });
    expect(await bad({ other: "secret://org_local/x" })).toEqual(
      issue("/secrets/other", "the export declares no such slot"),
    );
    expect(await bad({ jira_token: "secret://org_local/jira_token" })).toEqual(
      issue("/secrets/jira_token", "there is no secret secret://org_local/jira_token"),
    );
    expect(await bad({ jira_token: "secret://org_far/jira_token" })).toEqual(
      issue("/secrets/jira_token", "there is no secret secret://org_far/jira_token"),
    );
  },
);

test("only an admin lowers a class; it is recorded, audited, and anybody may ask for more isolation", async () => {
  const house = await openHouse();
  const made = await house.bind(manifest([tool("echo")]));
  const lower = { policy: { class: "worker" as const } };
  const id = made.binding_id;
  await expect(house.kernel.bindings.patch(user, id, lower, undefined)).rejects.toMatchObject({
    code: "binding.class_forbidden",
  });
  const lowered = await house.kernel.bindings.patch(admin, id, lower, undefined);
  expect(lowered.class_lowered_by).toBe("admin");
  // Another change by a user keeps who lowered it; raising it again needs nobody's leave.
  const kept = await house.kernel.bindings.patch(user, id, { rollout: { traffic_percent: 90 } }, undefined);
  expect(kept.class_lowered_by).toBe("admin");
  const audit = await house.kernel.audit.list(admin, { action: "binding.change" }, { limit: 10 });
  expect(audit.items.some((entry) => entry.details.class_lowered_by === "admin")).toBe(true);
  const raised = await house.kernel.bindings.patch(user, id, { policy: { class: "isolated" } }, undefined);
  expect(raised.class_lowered_by).toBeNull();
});

test("org-wide bindings need a caller of the whole org", async () => {
  const house = await openHouse();
  const content = manifest([tool("echo")]);
  await house.kernel.packages.install(admin, house.importer.add(content));
  const body = { package_id: "acme/devkit", package_version: "0.1.0", export_id: "echo", org_wide: true };
  await expect(house.kernel.bindings.create(user, body)).rejects.toMatchObject({ code: "policy.denied" });
  const made = await house.kernel.bindings.create(orgAdmin, body);
  expect(made.scope).toEqual({ org_id: "org_local", project_id: null });
  await expect(
    house.kernel.bindings.patch(user, made.binding_id, { config: {} }, undefined),
  ).rejects.toMatchObject({ code: "policy.denied" });
});

test("racing patches without If-Match are all applied; with a stale one they are refused", async () => {
  const house = await openHouse();
  const made = await house.bind(manifest([tool("echo")]));
  const id = made.binding_id;
  await Promise.all(
    Array.from({ length: 20 }, (_, i) =>
      house.kernel.bindings.patch(admin, id, { rollout: { traffic_percent: 50 + i } }, undefined),
    ),
  );
  expect((await house.kernel.bindings.get(user, id)).generation).toBe(21);
  await expect(house.kernel.bindings.patch(admin, id, { config: {} }, 1)).rejects.toMatchObject({
    code: "request.precondition",
  });
  expect(house.runner.retired.filter((one) => one === id)).toHaveLength(20);
});

test("an upgrade revalidates the config, and a removed binding is gone", async () => {
  const house = await openHouse();
  const made = await house.bind(manifest([tool("echo")]), { config: { anything: 1 } });
  const strict = manifest([tool("echo", { config_schema: "c.json" })], { version: "0.2.0" });
  await house.kernel.packages.install(
    admin,
    house.importer.add(strict, { "c.json": { type: "object", additionalProperties: false } }),
  );
  const upgrade = { package_version: "0.2.0" };
  const id = made.binding_id;
  await expect(house.kernel.bindings.patch(admin, id, upgrade, undefined)).rejects.toMatchObject({
    code: "binding.invalid",
  });
  const done = await house.kernel.bindings.patch(admin, id, { ...upgrade, config: {} }, undefined);
  expect(done.package_version).toBe("0.2.0");
  expect((await house.call({ export_id: "echo" })).package_version).toBe("0.2.0");
  await house.kernel.bindings.remove(admin, id);
  await expect(house.kernel.bindings.get(user, id)).rejects.toMatchObject({ code: "binding.not_found" });
  await expect(house.call({ export_id: "echo" })).rejects.toMatchObject({ code: "export.not_found" });
});

test("a key of one project, whatever its scopes, changes nothing of the org's and mounts nothing", async () => {
  const house = await openHouse();
  const named = { package_id: "acme/devkit", package_version: "0.1.0", export_id: "echo" };
  const org = await house.bind(manifest([tool("echo")]), { org_wide: true });
  const { bindings, events, audit } = house.kernel;
  const projectAdmin: Caller = { ...admin, actor: "key_project" };
  const denied = { code: "policy.denied" };
  await expect(bindings.create(projectAdmin, { ...named, org_wide: true })).rejects.toMatchObject(denied);
  const disable = bindings.patch(projectAdmin, org.binding_id, { status: "disabled" }, undefined);
  await expect(disable).rejects.toMatchObject(denied);
  await expect(bindings.remove(projectAdmin, org.binding_id)).rejects.toMatchObject(denied);
  // The host's disk is not even an org's: only the admin token opens it.
  const mounts = [{ source: "/", target: "/host", writable: true }];
  const asked = bindings.create(projectAdmin, { ...named, policy: { mounts } });
  await expect(asked).rejects.toMatchObject(denied);
  const own = await bindings.create(admin, { ...named, policy: { mounts } });
  const patch = (policy: object) => bindings.patch(projectAdmin, own.binding_id, { policy }, undefined);
  expect((await patch({ mounts, timeout_ms: 5_000 })).policy).toEqual({ mounts, timeout_ms: 5_000 });
  const wider = [...mounts, { source: "/etc", target: "/etc2", writable: false }];
  await expect(patch({ mounts: wider })).rejects.toMatchObject(denied);
  expect((await patch({})).policy).toEqual({});
  await expect(patch({ mounts })).rejects.toMatchObject(denied);
  // What the admin did for the whole org is told where it was done.
  const stop = new AbortController();
  for await (const event of events.watch(user, 0, stop.signal))
    if (event.type === "binding.changed" && event.subject.id === org.binding_id) stop.abort();
  expect(stop.signal.aborted).toBe(true);
  const seen = (await audit.list(user, { action: "binding.create" }, { limit: 10 })).items;
  expect(seen.map((entry) => entry.subject)).toContain(org.binding_id);
}, 10_000);

test("a removal with a generation removes that generation alone, whatever happens in between", async () => {
  const house = await openHouse();
  const { bindings } = house.kernel;
  const made = await house.bind(manifest([tool("echo")]));
  const id = made.binding_id;
  // Changed after it was read and before it is removed.
  const get = house.store.bindings.get.bind(house.store.bindings);
  house.store.bindings.get = async (...args) => {
    house.store.bindings.get = get;
    const read = await get(...args);
    await bindings.patch(admin, id, { config: { changed: true } }, undefined);
    return read;
  };
  await expect(bindings.remove(admin, id, 1)).rejects.toMatchObject({
    code: "request.precondition",
    details: { generation: 2 },
  });
  expect((await bindings.get(admin, id)).config).toEqual({ changed: true });
  await bindings.remove(admin, id, 2);
  await expect(bindings.remove(admin, id, 2)).rejects.toMatchObject({ code: "binding.not_found" });
});

verifies(
  "secret.slots",
  "a secret goes by environment only where a dialect has no other channel, and the call records it",
  async () => {
    const secret_slots = ["token", "other"];
    const open = async () => {
      const house = await openHouse();
      await house.kernel.secrets.put(admin, "token", "s3cr3t-value");
      return house;
    };
    /** A server that describes its one tool. */
    const server = (protocol: string) =>
      manifest([], {
        package_id: `acme/${protocol.replaceAll(".", "-")}`,
        runtime: { protocol, entrypoint: ["node", "server.js"], permissions: { secret_slots } },
      });
    const secrets = { token: "secret://org_local/token", other: "secret://org_local/token" };
    const binding = (secret_env: Record<string, string>) => ({ secrets, policy: { secret_env } });
    for (const protocol of ["mcp.stdio", "hefty.jsonrpc"]) {
      const house = await open();
      const content = server(protocol);
      const { permissions } = content.runtime;
      const described = ToolExportSchema.parse({ ...tool("search"), permissions });
      house.runner.description = () => ({ exports: [described], schemas: {}, warnings: [], info: {} });
      await house.bind(content, binding({ token: "API_TOKEN" }));
      const { grant, ...rest } = await house.call({ export_id: "search", input: {} });
      expect(grant?.secret_env).toEqual({ token: "API_TOKEN" });
      const [order] = house.runner.orders;
      expect(order!.grant.secret_env).toEqual({ token: "API_TOKEN" });
      // The process that was asked what it offers is the one that serves the call.
      expect(house.runner.questions[0]).toMatchObject({ pool_key: order!.pool_key, grant: order!.grant });
      expect(JSON.stringify({ grant, rest })).not.toContain("s3cr3t-value");
      // Whoever is not given the slot is not given its variable.
      const narrow = { secret_slots: ["other"] };
      const narrowed = await house.call({ export_id: "search", input: {}, narrow });
      expect(narrowed.grant?.secret_env).toBeUndefined();
    }
    const refused = async (content: ReturnType<typeof manifest>, secret_env: Record<string, string>) => {
      await expect((await open()).bind(content, binding(secret_env))).rejects.toMatchObject({
        code: "binding.invalid",
        message: expect.stringContaining("/policy/secret_env"),
      });
    };
    for (const protocol of ["vai.rpc.v1", "rterm.plugin.v1"]) {
      const runtime = { protocol, entrypoint: ["node", "plugin.js"] };
      await refused(manifest([tool("search", { permissions: { secret_slots } })], { runtime }), {
        token: "API_TOKEN",
      });
    }
    await refused(server("mcp.stdio"), { missing: "API_TOKEN" });
    await refused(server("mcp.stdio"), { token: "API_TOKEN", other: "API_TOKEN" });
    for (const name of ["PATH", "LD_PRELOAD", "NODE_OPTIONS", "lower", "A=B", ""]) {
      expect(BindingPolicySchema.safeParse({ secret_env: { token: name } }).success).toBe(false);
    }
  },
);
