import type { Grant } from "@backplane/contract";
import { grantWith } from "@backplane/test-kit/grant-with";
import fc from "fast-check";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { sandboxNetwork } from "../../src/egress/proxy/sandbox-network.ts";
import { DEFAULT_SANDBOX_LIMITS } from "../../src/sandbox/limits.ts";
import { plan, type SandboxHost, type SandboxRequest } from "../../src/sandbox/plan.ts";

const HOST: SandboxHost = {
  system: ["/usr", "/etc/alternatives", "/etc/ld.so.cache"],
  links: [{ path: "/bin", target: "usr/bin" }],
  files: [{ source: "/cache/passwd", target: "/etc/passwd" }],
  node: "/home/of/the/gateway/node",
  path: ["/usr/local/bin", "/usr/bin", "/bin"],
  limits: DEFAULT_SANDBOX_LIMITS,
  first_uid: 59_000,
  cgroup: true,
};

function requestWith(change: Partial<SandboxRequest> = {}): SandboxRequest {
  return {
    grant: grantWith(),
    lifetime: "call",
    slot: 3,
    folder: "/store/abc",
    has_assets: true,
    program: { kind: "system", file: "/usr/bin/python3", args: ["main.py"] },
    env: {},
    ...change,
  };
}

const segment = fc.stringMatching(/^[a-z0-9]{1,8}$/);
const folder = fc.array(segment, { minLength: 1, maxLength: 3 }).map((parts) => `/data/${parts.join("/")}`);
const grants: fc.Arbitrary<Grant> = fc.record({
  class: fc.constantFrom("worker", "isolated"),
  network: fc.constant("none"),
  allowed_domains: fc.array(fc.domain()),
  filesystem: fc.constantFrom("none", "scratch", "assets_ro"),
  mounts: fc.array(fc.record({ source: folder, target: folder, writable: fc.boolean() }), { maxLength: 4 }),
  gateway_api_scopes: fc.constant([]),
  secret_slots: fc.array(fc.string()),
  capabilities: fc.array(fc.string()),
  tools: fc.constant(null),
});
const requests = fc.record({
  grant: grants,
  lifetime: fc.constantFrom("call" as const, "pooled" as const),
  slot: fc.nat(500),
  env: fc.dictionary(fc.stringMatching(/^[A-Z_]{1,12}$/), fc.string()),
  kind: fc.constantFrom("node" as const, "system" as const, "package" as const),
});

test("shows no files of the host except system files and those that the grant lists", () => {
  fc.assert(
    fc.property(requests, ({ kind, ...change }) => {
      const file = kind === "package" ? "/store/abc/bin/run" : "/usr/bin/run";
      const request = requestWith({ ...change, program: { kind, file, args: [] } });
      const planned = plan(request, HOST);
      const allowed = new Set([
        ...HOST.system,
        "/cache/passwd",
        "/store/abc",
        ...(kind === "node" ? [HOST.node] : []),
        ...request.grant.mounts.map(({ source }) => source),
      ]);
      for (const mount of planned.mounts) expect(allowed).toContain(mount.source);
      expect(planned.listeners).toEqual([]);
    }),
  );
});

test("allows writes only to scratch and to mounts that the grant makes writable", () => {
  fc.assert(
    fc.property(requests, ({ kind: _kind, ...change }) => {
      const request = requestWith(change);
      const planned = plan(request, HOST);
      const writable = planned.mounts.filter((mount) => mount.writable);
      expect(writable.map(({ source, target }) => [source, target])).toEqual(
        request.grant.mounts.filter((mount) => mount.writable).map(({ source, target }) => [source, target]),
      );
      expect(planned.scratch === null).toBe(request.grant.filesystem !== "scratch");
    }),
  );
});

test("uses the manifest's environment except for PATH, HOME and TMPDIR", () => {
  fc.assert(
    fc.property(requests, ({ kind: _kind, ...change }) => {
      const { env } = plan(requestWith(change), HOST);
      const { LANG = "C.UTF-8", ...own } = change.env;
      const home = change.grant.filesystem === "scratch" ? "/sandbox/scratch" : "/nonexistent";
      const set = { PATH: "/usr/local/bin:/usr/bin:/bin", HOME: home, TMPDIR: home, LANG };
      const { GIT_CONFIG_COUNT: _count, GIT_CONFIG_KEY_0: _key, GIT_CONFIG_VALUE_0: _value, ...others } = env;
      expect(others).toEqual({ ...own, ...set });
    }),
  );
});

test("gives each slot its own user, never root, and keeps the user of a gateway without root", () => {
  fc.assert(
    fc.property(fc.nat(500), fc.nat(500), (a, b) => {
      const first = plan(requestWith({ slot: a }), HOST).uid!;
      expect(first).toBeGreaterThan(0);
      expect(first === plan(requestWith({ slot: b }), HOST).uid).toBe(a === b);
      expect(plan(requestWith({ slot: a }), { ...HOST, first_uid: null }).uid).toBeNull();
    }),
  );
});

test("maps programs to their paths in the sandbox", () => {
  const command = (program: SandboxRequest["program"]) => plan(requestWith({ program }), HOST).command;
  expect(command({ kind: "node", file: HOST.node, args: ["a.mjs"] })).toEqual(["/sandbox/node", "a.mjs"]);
  expect(command({ kind: "package", file: "/store/abc/bin/x", args: [] })).toEqual(["/plugin/bin/x"]);
  expect(command({ kind: "system", file: "/usr/bin/env", args: ["x"] })).toEqual(["/usr/bin/env", "x"]);
  expect(() => command({ kind: "package", file: "/store/abd", args: [] })).toThrow("outside the package");
});

verifies("source.image", "shows the files of an image and no system files of the host", () => {
  const image = {
    root: "/images/x-root",
    workdir: "/app",
    entries: [
      { path: "/app", source: "/images/x-root/app" },
      { path: "/etc", source: "/images/x-root/etc" },
      { path: "/bin", target: "usr/bin" },
    ],
  };
  const program = { kind: "image", file: "/app/server", args: ["x"] } as const;
  const planned = plan(requestWith({ image, program, env: { PATH: "/app" } }), {
    ...HOST,
    files: [...HOST.files, { source: "/cache/flags", target: "/etc/chromium.d/sandbox" }],
  });
  const read_only = { writable: false, system: false };
  expect(planned.mounts).toEqual([
    { source: "/images/x-root/app", target: "/app", ...read_only },
    { source: "/images/x-root/etc", target: "/etc", ...read_only },
    { source: "/cache/passwd", target: "/etc/passwd", ...read_only },
  ]);
  expect(planned.links).toEqual([{ path: "/bin", target: "usr/bin" }]);
  expect(planned).toMatchObject({ cwd: "/app", command: ["/app/server", "x"], hidden: [], uid: 59_003 });
  expect(planned.env.PATH).toBe("/app");
});

test("hides assets if the grant allows no files", () => {
  const hidden = (filesystem: Grant["filesystem"], has_assets = true) =>
    plan(requestWith({ grant: grantWith({ filesystem }), has_assets }), HOST).hidden;
  expect(hidden("none")).toEqual(["/plugin/assets"]);
  expect(hidden("none", false)).toEqual([]);
  expect(hidden("assets_ro")).toEqual([]);
  expect(hidden("scratch")).toEqual([]);
});

test("adds listeners, variables and hosts for egress, and none without it", () => {
  const grant = grantWith({ network: "egress", allowed_domains: ["a.test"] });
  const host = { ...HOST, files: [...HOST.files, { source: "/cache/hosts", target: "/etc/hosts" }] };
  const hosts = (planned: ReturnType<typeof plan>) =>
    planned.mounts.filter(({ target }) => target === "/etc/hosts").map(({ source }) => source);
  const none = plan(requestWith({ grant }), host);
  expect([none.listeners, none.env.HTTP_PROXY, hosts(none)]).toEqual([[], undefined, ["/cache/hosts"]]);
  const { listeners, env } = sandboxNetwork(grant);
  const network = { listeners, env, hosts_file: "/cache/hosts-a" };
  const planned = plan(
    requestWith({ grant, network, env: { HTTP_PROXY: "http://evil.test", PATH: "/x" } }),
    host,
  );
  expect(planned.listeners).toEqual(listeners);
  expect(planned.env).toMatchObject({ ...env, PATH: "/usr/local/bin:/usr/bin:/bin" });
  expect(hosts(planned)).toEqual(["/cache/hosts-a"]);
});

test("lets git read mounted repositories, unless the plugin has git settings of its own", () => {
  const grant = grantWith({ mounts: [{ source: "/srv/code", target: "/data", writable: false }] });
  expect(plan(requestWith({ grant }), HOST).env).toMatchObject({
    GIT_CONFIG_COUNT: "1",
    GIT_CONFIG_KEY_0: "safe.directory",
  });
  expect(plan(requestWith(), HOST).env).not.toHaveProperty("GIT_CONFIG_COUNT");
  const env = { GIT_CONFIG_COUNT: "1", GIT_CONFIG_KEY_0: "core.pager", GIT_CONFIG_VALUE_0: "cat" };
  expect(plan(requestWith({ grant, env }), HOST).env).toMatchObject(env);
});

test.each([
  ["/data/x", "/usr/lib"],
  ["/data/x", "/etc"],
  ["/data/x", "/"],
  ["/data/x", "/sandbox/scratch/x"],
  ["/data/x", "/plugin"],
  ["/data/x", "/data/../etc"],
  ["/data/x", "relative"],
  ["/data/x/", "/data"],
  ["/data/x\0/y", "/data"],
  ["/", "/data"],
  ["/proc/1/root", "/data"],
  ["/dev", "/data"],
])("refuses a mount of %j at %j", (source, target) => {
  const grant = grantWith({ mounts: [{ source, target, writable: false }] });
  expect(() => plan(requestWith({ grant }), HOST)).toThrow(
    expect.objectContaining({ code: "launch_failed" }),
  );
});

test("does not limit the CPU time of a pooled process, and limits memory once", () => {
  const limits = (change: Partial<SandboxRequest>, host = HOST) =>
    new Map(plan(requestWith(change), host).limits.map(({ resource, value }) => [resource, value]));
  const [CPU, DATA, CORE] = [0, 2, 4] as const;
  expect(limits({ lifetime: "call" }).get(CPU)).toBe(DEFAULT_SANDBOX_LIMITS.cpu_seconds);
  expect(limits({ lifetime: "pooled" }).has(CPU)).toBe(false);
  expect(limits({}).has(DATA)).toBe(false);
  expect(limits({}, { ...HOST, cgroup: false }).get(DATA)).toBe(
    DEFAULT_SANDBOX_LIMITS.memory_bytes + 1536 * 1024 * 1024,
  );
  expect(limits({}).get(CORE)).toBe(0);
});
