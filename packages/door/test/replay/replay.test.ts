/** Recorded read-only calls run against a candidate version, and the results are compared (upgrade.replay). */
import type { Json, Package, ReplayRequest } from "@backplane/contract";
import { ToolExportSchema } from "@backplane/contract/schema";
import type { Caller, RunOutcome } from "@backplane/ports";
import { manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { ended, ok } from "@backplane/test-kit/kernel/scripted-runner";
import {
  admin,
  createTestKernel,
  guest,
  type TestKernel,
  user,
} from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";

const READ = toolExport("read", {
  permissions: { network: "egress", allowed_domains: ["api.example"], secret_slots: ["token"] },
});
const WRITE = toolExport("write", {}, { effect_class: "non_idempotent_write" });
const EXPORTS = [READ, WRITE];
const result = (structured_output: Json): Json => ({ content: [], structured_output });

/** The result of the tool `read` for an input, by version. */
type ResultsByVersion = Record<string, (input: Json) => Json | RunOutcome>;

async function createRecordedKernel(results: ResultsByVersion, exports = EXPORTS) {
  const fixture = await createTestKernel();
  await fixture.kernel.secrets.put(admin, "token", "s3cr3t-value");
  await fixture.bind(manifest(EXPORTS), {
    export_id: "read",
    secrets: { token: "secret://org_local/token" },
    policy: { mounts: [{ source: "/srv/notes", target: "/notes", writable: true }] },
  });
  await fixture.kernel.bindings.create(admin, {
    package_id: "acme/devkit",
    package_version: "0.1.0",
    export_id: "write",
  });
  fixture.runner.script = ({ request }) => {
    const output = results[request.package.version]!(request.body.input as Json);
    return typeof output === "object" && output !== null && "status" in output
      ? (output as unknown as RunOutcome)
      : ok(result(output));
  };
  const candidate = await install(fixture, "0.2.0", exports);
  return { fixture, candidate };
}

async function install(fixture: TestKernel, version: string, exports = EXPORTS): Promise<Package> {
  const source = fixture.importer.add({ ...manifest(exports), version });
  return (await fixture.kernel.packages.install(admin, source)).package;
}

const replay = (
  fixture: TestKernel,
  { id }: Package,
  request: Partial<ReplayRequest> = {},
  caller: Caller = admin,
) => fixture.kernel.packages.replay(caller, id, { limit: 50, ...request });

const echo = (input: Json) => ({ version_of: "any", input });

verifies(
  "upgrade.replay",
  "runs recorded read-only calls against both versions and reports where the results differ",
  async () => {
    const shout = (input: Json) =>
      (input as { text: string }).text === "b" ? { version_of: "any", loud: true, input } : echo(input);
    const { fixture, candidate } = await createRecordedKernel({ "0.1.0": echo, "0.2.0": shout });
    // The second call with the same arguments is not replayed.
    for (const text of ["a", "b", "a"]) await fixture.call({ export_id: "read", input: { text } });
    await fixture.call({ export_id: "write", input: { text: "w" } });
    const report = await replay(fixture, candidate);
    expect(report).toMatchObject({
      package_id: "acme/devkit",
      from_versions: ["0.1.0"],
      to_version: "0.2.0",
      verdict: "changed",
      counts: { same: 1, changed: 1, failed: 0, not_comparable: 0, skipped: 0 },
      permissions: { requested: [], attempted: [] },
      latency: { ratio: expect.any(Number) },
      problems: [],
    });
    expect(report.calls.map((call) => [call.export_id, call.result])).toEqual([
      ["read", "same"],
      ["read", "changed"],
    ]);
    expect(report.calls[1]!.differences).toEqual([
      { path: "/structured_output/loud", change: "added", candidate: true },
    ]);
  },
);

verifies("upgrade.replay", "gives a replay no network, secrets, scopes or writable folders", async () => {
  const { fixture, candidate } = await createRecordedKernel({ "0.1.0": echo, "0.2.0": echo });
  const bindings = (await fixture.kernel.bindings.list(admin, {}, { limit: 5 })).items;
  await fixture.call({ export_id: "read", input: { text: "a" }, session_id: "ses_1" }, admin).catch(() => {});
  const recorded = await fixture.call({ export_id: "read", input: { text: "a" } });
  expect(fixture.runner.requests.at(-1)!.context.secrets).toEqual({ token: "s3cr3t-value" });
  const earlier_requests = fixture.runner.requests.length;
  expect((await replay(fixture, candidate)).verdict).toBe("same");
  const replayed = fixture.runner.requests.slice(earlier_requests);
  expect(replayed.map((request) => request.package.version)).toEqual(["0.1.0", "0.2.0"]);
  for (const request of replayed) {
    expect(request.grant).toMatchObject({
      class: "isolated",
      network: "none",
      allowed_domains: [],
      gateway_api_scopes: [],
      mounts: [{ source: "/srv/notes", target: "/notes", writable: false }],
    });
    expect(JSON.stringify(request)).not.toContain("s3cr3t-value");
    expect(request.context).not.toHaveProperty("session_id");
    expect(request.context.gateway).not.toHaveProperty("delegation_token");
    // A replay neither uses nor retires a process of a real binding.
    expect(bindings.map(({ binding_id }) => binding_id)).not.toContain(request.binding_id);
    expect(request.pool_key).toContain(request.binding_id);
    expect(request.invocation_id).not.toBe(recorded.id);
  }
  expect(fixture.runner.retired.toSorted()).toEqual(replayed.map((request) => request.binding_id).toSorted());
});

verifies(
  "upgrade.replay",
  "moves no traffic and leaves no invocation, event or count, only an audit entry",
  async () => {
    const { fixture, candidate } = await createRecordedKernel({ "0.1.0": echo, "0.2.0": echo });
    const recorded = await fixture.call({ export_id: "read", input: { text: "a" } });
    const state = async () => ({
      bindings: (await fixture.kernel.bindings.list(admin, {}, { limit: 5 })).items,
      invocations: (await fixture.kernel.invocations.list(admin, {}, { limit: 50 })).items.length,
      counts: (await fixture.kernel.health()).ended,
      events: await fixture.store.outbox.read(0, 100),
    });
    const initial_state = await state();
    await replay(fixture, candidate);
    expect(await state()).toEqual(initial_state);
    const { items } = await fixture.store.audit.list(admin.scope, { action: "package.replay" }, { limit: 5 });
    expect(items).toMatchObject([
      {
        subject: candidate.id,
        details: { from: ["0.1.0"], version: "0.2.0", verdict: "same", replayed: [recorded.id] },
      },
    ]);
  },
);

verifies(
  "upgrade.replay",
  "holds a candidate that connects to a host that the version in use does not connect to",
  async () => {
    const refusal = (host: string) => ({ host, port: 443, reason: "network", message: "no network", at: "" });
    const dials = (...hosts: string[]): RunOutcome => ({
      ...ok(result(1)),
      egress: { refused: hosts.length, refusals: hosts.map(refusal) },
    });
    const { fixture, candidate } = await createRecordedKernel({
      "0.1.0": () => dials("api.example"),
      "0.2.0": () => dials("api.example", "collector.example"),
    });
    await fixture.call({ export_id: "read", input: {} });
    const attempted = [{ host: "collector.example", port: 443 }];
    expect(await replay(fixture, candidate)).toMatchObject({
      verdict: "held",
      counts: { same: 1 },
      permissions: { requested: [], attempted },
      calls: [{ attempts: attempted }],
    });
  },
);

verifies("upgrade.replay", "holds a candidate that requests another permission", async () => {
  const wider = { ...WRITE, permissions: { filesystem: "scratch" } };
  const { fixture, candidate } = await createRecordedKernel({ "0.1.0": echo, "0.2.0": echo }, [READ, wider]);
  await fixture.call({ export_id: "read", input: {} });
  expect(await replay(fixture, candidate)).toMatchObject({
    verdict: "held",
    permissions: { requested: [{ permission: "filesystem" }] },
  });
});

test("does not run a tool that the candidate no longer declares as read-only", async () => {
  const writes = { ...READ, tool: { effect_class: "non_idempotent_write" } };
  const { fixture, candidate } = await createRecordedKernel({ "0.1.0": echo, "0.2.0": echo }, [
    writes,
    WRITE,
  ]);
  await fixture.call({ export_id: "read", input: {} });
  const report = await replay(fixture, candidate);
  expect(report.calls).toMatchObject([
    {
      result: "changed",
      reason: "read has the effect class non_idempotent_write in version 0.2.0 and was not run.",
    },
  ]);
  expect(fixture.runner.requests.map((request) => request.package.version)).toEqual(["0.1.0", "0.1.0"]);
});

test("distinguishes a failure of the candidate from results that the version in use cannot repeat", async () => {
  let drawn = 0;
  const random = (input: Json) => ({ drawn: drawn++, input });
  const failing = ended("failed", "plugin_failed");
  const { fixture, candidate } = await createRecordedKernel({ "0.1.0": random, "0.2.0": random });
  await fixture.call({ export_id: "read", input: {} });
  expect(await replay(fixture, candidate)).toMatchObject({
    verdict: "same",
    counts: { not_comparable: 1 },
    calls: [{ reason: "The version in use returns a different result each time." }],
  });
  // A different structure also counts as a change in this case.
  const renamed = await createRecordedKernel({ "0.1.0": random, "0.2.0": () => ({ value: drawn++ }) });
  await renamed.fixture.call({ export_id: "read", input: {} });
  expect(await replay(renamed.fixture, renamed.candidate)).toMatchObject({ verdict: "changed" });
  const broken = await createRecordedKernel({ "0.1.0": echo, "0.2.0": () => failing as unknown as Json });
  await broken.fixture.call({ export_id: "read", input: {} });
  expect(await replay(broken.fixture, broken.candidate)).toMatchObject({
    verdict: "changed",
    counts: { failed: 1 },
    calls: [{ reason: "The candidate fails (plugin_failed): plugin_failed in the test" }],
  });
});

test("replays only the requested tools, at most as many calls as requested", async () => {
  const { fixture, candidate } = await createRecordedKernel({ "0.1.0": echo, "0.2.0": echo });
  for (const text of ["a", "b", "c"]) await fixture.call({ export_id: "read", input: { text } });
  expect((await replay(fixture, candidate, { limit: 2 })).counts.same).toBe(2);
  expect(await replay(fixture, candidate, { tools: ["write"] })).toMatchObject({
    verdict: "nothing_replayed",
    calls: [],
  });
});

test("refuses a replay without the sandbox, of an unknown package, or by a caller without the right", async () => {
  const { fixture, candidate } = await createRecordedKernel({ "0.1.0": echo, "0.2.0": echo });
  await expect(replay(fixture, candidate, {}, guest)).rejects.toMatchObject({ code: "policy.denied" });
  await expect(replay(fixture, candidate, {}, user)).rejects.toMatchObject({ code: "auth.scope" });
  await expect(replay(fixture, { ...candidate, id: "pkg_none" })).rejects.toMatchObject({
    code: "package.not_found",
  });
  const [package_in_use] = (await fixture.kernel.packages.list(admin, { limit: 5 })).items.filter(
    ({ version }) => version === "0.1.0",
  );
  await expect(replay(fixture, package_in_use!)).rejects.toMatchObject({ code: "binding.not_found" });
  fixture.runner.sandbox = { enabled: false, available: false, reason: "It is turned off." };
  const off = await createTestKernel({ file: fixture.file, runner: fixture.runner });
  await expect(replay(off, candidate)).rejects.toMatchObject({ code: "sandbox.unavailable" });
});

/** Describes a tool without hints, and a tool whose read-only hint is the next value of `hinted` each time. */
function describeServer(fixture: TestKernel, hinted: readonly boolean[]): void {
  let described = 0;
  fixture.runner.description = () => {
    const readOnlyHint = hinted[Math.min(described++, hinted.length - 1)]!;
    const tool = (id: string, hints: object) =>
      ToolExportSchema.parse({ id, kind: "tool", tool: { effect_class: "unknown", hints } });
    return {
      exports: [tool("mcp_notes_find", { readOnlyHint }), tool("mcp_notes_add", {})],
      schemas: {},
      warnings: [],
      info: {},
    };
  };
}

async function createServerKernel(hinted: readonly boolean[]) {
  const fixture = await createTestKernel();
  describeServer(fixture, hinted);
  const runtime = { protocol: "mcp.stdio", entrypoint: ["node", "server.js"] } as const;
  const server = (version: string) => ({ ...manifest([], { package_id: "acme/notes", runtime }), version });
  await fixture.bind(server("0.1.0"));
  fixture.runner.script = ({ request }) => ok(result({ by: request.package.version }));
  const installed = await fixture.kernel.packages.install(admin, fixture.importer.add(server("0.2.0")));
  for (const export_id of ["mcp_notes_find", "mcp_notes_add"]) await fixture.call({ export_id, input: {} });
  return { fixture, candidate: installed.package };
}

verifies(
  "upgrade.replay",
  "replays the calls to those tools of an MCP server that declare themselves read-only, and no others",
  async () => {
    const { fixture, candidate } = await createServerKernel([true]);
    const earlier_requests = fixture.runner.requests.length;
    const report = await replay(fixture, candidate);
    expect(report).toMatchObject({ verdict: "changed", counts: { changed: 1 }, problems: [] });
    expect(report.calls).toMatchObject([
      { export_id: "mcp_notes_find", differences: [{ path: "/structured_output/by" }] },
    ]);
    const replayed = fixture.runner.requests.slice(earlier_requests);
    expect(replayed.map((request) => request.package.version)).toEqual(["0.1.0", "0.2.0"]);
    for (const { grant } of replayed) expect(grant).toMatchObject({ network: "none", allowed_domains: [] });
    // The tools are described when the server is bound, and for the replay in the version in use and in the candidate.
    // The candidate withdraws the hint.
    const withdrawn = await createServerKernel([true, true, false]);
    expect((await replay(withdrawn.fixture, withdrawn.candidate)).calls).toMatchObject([
      {
        result: "changed",
        reason: "mcp_notes_find has the effect class unknown in version 0.2.0 and was not run.",
      },
    ]);
  },
);
