/** Grants of nested calls with random policies at every level, from the manifest to the outermost caller. */

import { type Binding, FILESYSTEM_ACCESS, type Grant, type Package } from "@backplane/contract";
import { toDelegatedCaller } from "@backplane/door";
import { type GrantLevel, type HostPolicy, hostPolicy } from "@backplane/ports";
import { manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { ok } from "@backplane/test-kit/kernel/scripted-runner";
import { createTestKernel, scope, user } from "@backplane/test-kit/kernel/test-kernel";
import fc from "fast-check";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { covers } from "../../src/grant/domains.ts";
import { callerLevel, levelBeforeCall, toGrant } from "../../src/grant/effective-grant.ts";
import { intersect, type Level, moreIsolated } from "../../src/grant/intersect.ts";
import { exported, host, level, maybe, narrow, type RandomExport } from "./random-levels.ts";

function computeLevel(
  { requested: permissions, policy: bound, isolation, capabilities }: RandomExport,
  host_policy: HostPolicy,
) {
  const content = manifest([toolExport("one", { permissions })], {
    runtime: { protocol: "rterm.plugin.v1", entrypoint: ["./p"], capabilities },
  });
  const binding = { policy: bound } as Binding;
  const pack = { manifest: content } as Package;
  return levelBeforeCall(
    { binding, package: pack, export: content.exports[0]! },
    isolation,
    scope,
    host_policy,
  );
}

/** Returns the dimensions in which the child's grant is wider. A field that the level leaves out limits nothing. */
function findWiderDimensions(child: Grant, parent: Level): string[] {
  const outside = <T>(granted: readonly T[], allowed: readonly T[] | null | undefined) =>
    allowed !== undefined && allowed !== null && granted.some((entry) => !allowed.includes(entry));
  const { mounts } = parent;
  const checks: [string, boolean][] = [
    ["class", parent.class !== undefined && moreIsolated(child.class, parent.class) !== child.class],
    ["network", parent.network === "none" && child.network !== "none"],
    [
      "domains",
      parent.allowed_domains !== undefined &&
        child.allowed_domains.some((domain) => !parent.allowed_domains!.some((wide) => covers(wide, domain))),
    ],
    [
      "filesystem",
      parent.filesystem !== undefined &&
        FILESYSTEM_ACCESS.indexOf(child.filesystem) > FILESYSTEM_ACCESS.indexOf(parent.filesystem),
    ],
    [
      "mounts",
      (mounts === false && child.mounts.length > 0) ||
        (Array.isArray(mounts) &&
          child.mounts.some(
            (mount) =>
              !mounts.some(
                (other) =>
                  other.source === mount.source &&
                  other.target === mount.target &&
                  (other.writable || !mount.writable),
              ),
          )),
    ],
    ["scopes", outside(child.gateway_api_scopes, parent.gateway_api_scopes)],
    ["slots", outside(child.secret_slots, parent.secret_slots)],
    ["capabilities", outside(child.capabilities, parent.capabilities)],
    [
      "tools",
      parent.tools !== undefined &&
        parent.tools !== null &&
        (child.tools === null || outside(child.tools, parent.tools)),
    ],
  ];
  return checks.filter(([, is_wider]) => is_wider).map(([dimension]) => dimension);
}

const KEY = `${scope.org_id}/${scope.project_id}`;
const hostPolicyWith = (host_limits: Partial<HostPolicy>, org?: GrantLevel, project?: GrantLevel) =>
  hostPolicy({
    ...host_limits,
    ...(org === undefined ? {} : { orgs: new Map([[scope.org_id, org]]) }),
    ...(project === undefined ? {} : { projects: new Map([[KEY, project]]) }),
  });

test("never grants more than manifest, binding, project, org, host and caller allow, at any call depth", () => {
  fc.assert(
    fc.property(
      host,
      level,
      level,
      fc.array(fc.record({ export: exported, narrow }), { minLength: 1, maxLength: 4 }),
      (host_limits, org, project, calls) => {
        const host_policy = hostPolicyWith(host_limits, org, project);
        let caller = user;
        let parent_grant: Grant | null = null;
        for (const call of calls) {
          const ceiling = callerLevel(caller, call.narrow);
          const grant = toGrant(intersect(computeLevel(call.export, host_policy), ceiling ?? {}));
          const { requested, policy: bound } = call.export;
          const parents: Record<string, Level> = {
            manifest: { ...requested, class: call.export.isolation, capabilities: call.export.capabilities },
            binding: {
              ...bound.permissions,
              mounts: bound.mounts ?? false,
              capabilities: bound.capabilities ?? [],
              ...(bound.allowed_domains === undefined ? {} : { allowed_domains: bound.allowed_domains }),
            },
            org,
            project,
            host: {
              ...(host_limits.min_class === undefined ? {} : { class: host_limits.min_class }),
              ...(host_limits.network === undefined ? {} : { network: host_limits.network }),
              ...(host_limits.default_domains === undefined
                ? {}
                : { allowed_domains: host_limits.default_domains }),
              ...(host_limits.mounts === undefined ? {} : { mounts: host_limits.mounts }),
            },
            narrow: call.narrow ?? {},
            caller: parent_grant ?? {},
          };
          for (const [name, parent] of Object.entries(parents)) {
            expect(
              findWiderDimensions(grant, parent),
              `${name}: ${JSON.stringify({ grant, parent })}`,
            ).toEqual([]);
          }
          parent_grant = grant;
          caller = toDelegatedCaller({
            id: "inv_1",
            ...scope,
            grant,
            effect_class: "unknown",
            delivery_id: null,
            depth: 0,
          } as never)!;
        }
      },
    ),
    { numRuns: 3_000 },
  );
});

test("never widens the grant when a level is added", () => {
  fc.assert(
    fc.property(
      host,
      exported,
      maybe(level),
      maybe(level),
      level,
      narrow,
      narrow,
      (host_limits, item, org, project, more, first, second) => {
        const without = computeLevel(item, hostPolicyWith(host_limits, org, project));
        const added = [
          computeLevel(item, hostPolicyWith(host_limits, intersect(org ?? {}, more) as GrantLevel, project)),
          computeLevel(item, hostPolicyWith(host_limits, org, intersect(project ?? {}, more) as GrantLevel)),
        ];
        // Until one level lists domains, none are reachable, so there is nothing to narrow.
        const lists_domains = [
          item.requested,
          item.policy,
          org,
          project,
          { allowed_domains: host_limits.default_domains },
        ].some((each) => each?.allowed_domains !== undefined);
        const base = toGrant(without);
        const base_level: Level = lists_domains ? base : { ...base, allowed_domains: ["*"] };
        for (const level of added) expect(findWiderDimensions(toGrant(level), base_level)).toEqual([]);
        // A caller only narrows the grant, even in a field that no other level restricts.
        for (const narrowings of [[first], [second], [first, second]]) {
          const grant = toGrant(intersect(without, ...narrowings.map((narrowing) => narrowing ?? {})));
          expect(findWiderDimensions(grant, base)).toEqual([]);
          expect(findWiderDimensions(toGrant(intersect(without, first ?? {}, second ?? {})), grant)).toEqual(
            [],
          );
        }
      },
    ),
    { numRuns: 3_000 },
  );
});

test("grants no domains if only the caller lists any", async () => {
  const fixture = await createTestKernel();
  await fixture.bind(manifest([toolExport("reach", { permissions: { network: "egress" } })]));
  const { grant } = await fixture.call({ export_id: "reach", narrow: { allowed_domains: ["*"] } });
  expect(grant).toMatchObject({ network: "egress", allowed_domains: [] });
});

verifies(
  "grant.narrow",
  "records the grant, passes it in the context, and limits the tools, scopes and secrets of nested calls",
  async () => {
    const full = {
      network: "egress",
      filesystem: "scratch",
      allowed_domains: ["*.example.com"],
      gateway_api_scopes: ["tools:invoke", "runs:read"],
      secret_slots: ["jira"],
    };
    const fixture = await createTestKernel({
      host: {
        orgs: new Map([[scope.org_id, { allowed_domains: ["api.example.com", "other.org"] }]]),
        projects: new Map([[KEY, { gateway_api_scopes: ["tools:invoke"], tools: ["reach", "deep"] }]]),
      },
    });
    const { kernel } = fixture;
    const admin = { ...user, actor: "admin", role: "owner" as const, admin: true };
    await kernel.secrets.put(admin, "jira", "a-secret-value");
    const content = manifest(["reach", "deep", "other"].map((id) => toolExport(id, { permissions: full })));
    const secrets = { jira: "secret://org_local/jira" };
    await fixture.bind(content, { secrets });
    for (const export_id of ["deep", "other"]) {
      await kernel.bindings.create(admin, {
        package_id: "acme/devkit",
        package_version: "0.1.0",
        export_id,
        secrets,
      });
    }
    const refusals: string[] = [];
    fixture.runner.script = async ({ request }) => {
      expect(request.context.grant).toEqual(request.grant);
      expect(Object.keys(request.context.secrets ?? {})).toEqual(request.grant.secret_slots);
      if (request.export_id !== "reach") return ok();
      const caller = await kernel.keys.authenticate(request.context.gateway.delegation_token!);
      expect(caller.delegation!.scopes).toEqual(request.grant.gateway_api_scopes);
      const child = await (await kernel.invocations.invoke(caller, { export_id: "deep" })).settled;
      expect(findWiderDimensions(child.grant!, request.grant)).toEqual([]);
      await kernel.invocations
        .invoke(caller, { export_id: "other" })
        .catch((error: { code: string; message: string }) =>
          refusals.push(`${error.code}: ${error.message}`),
        );
      return ok();
    };
    const wide = await fixture.call({ export_id: "reach" });
    const small = await fixture.call({
      export_id: "reach",
      narrow: { network: "none", secret_slots: [], filesystem: "none" },
    });
    expect([wide.status, small.status], JSON.stringify([wide.error, small.error])).toEqual([
      "succeeded",
      "succeeded",
    ]);
    expect(wide.grant).toMatchObject({
      network: "egress",
      allowed_domains: ["api.example.com"],
      gateway_api_scopes: ["tools:invoke"],
      secret_slots: ["jira"],
      tools: ["deep", "reach"],
    });
    expect((await kernel.invocations.get(user, wide.id)).grant).toEqual(wide.grant);
    expect(refusals).toHaveLength(2);
    expect(refusals[0]).toBe("policy.denied: The calling invocation was not granted the tool other.");
    const children = (await kernel.invocations.list(user, { export_id: "deep" }, { limit: 9 })).items;
    expect(children.map(({ grant }) => [grant!.network, grant!.filesystem, grant!.secret_slots])).toEqual([
      ["none", "none", []],
      ["egress", "scratch", ["jira"]],
    ]);
    // Refusals are recorded too.
    const refused = (await kernel.invocations.list(user, { export_id: "other" }, { limit: 9 })).items;
    expect(refused.map(({ status, error }) => [status, error?.code])).toEqual([
      ["failed", "policy.denied"],
      ["failed", "policy.denied"],
    ]);
  },
);
