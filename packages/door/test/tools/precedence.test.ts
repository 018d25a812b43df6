/** Which of several tools gets a name, among candidates from different sources and in a whole kernel. */
import type { Origin } from "@backplane/contract";
import { ToolExportSchema } from "@backplane/contract/schema";
import { manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { admin, createTestKernel, until, user } from "@backplane/test-kit/kernel/test-kernel";
import { toolPlugin } from "@backplane/test-kit/kernel/tool-plugin";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { type Candidate, candidateOf, rank, selectUsable } from "../../src/tools/precedence.ts";

const createCandidate = (
  origin: Origin,
  package_id: string,
  installed_at = "",
  more: Partial<Candidate> = {},
): Candidate => ({
  name: "search",
  origin,
  package_id,
  installed_at,
  registered_at: installed_at,
  instrument: false,
  ...more,
});
const findWinner = (...candidates: Candidate[]) => rank(candidates).winners.get("search")?.package_id;
const findLoser = (...candidates: Candidate[]) => rank(candidates).losers[0]!;

verifies(
  "tools.precedence",
  "ranks workspace before core, core before bundled and bundled before installed tools",
  () => {
    const core = createCandidate("core", "core/backplane");
    const workspace = createCandidate("workspace", "workspace/tools", "2030");
    const bundled = createCandidate("bundled", "kernel/search");
    const old = createCandidate("plugin", "acme/old", "2020");
    const server = createCandidate("mcp", "acme/server", "2019");
    expect(findWinner(core, workspace)).toBe("workspace/tools");
    for (const other of [bundled, old, server]) {
      expect(findWinner(other, core)).toBe("core/backplane");
      expect(findWinner(other, workspace)).toBe("workspace/tools");
      expect(findLoser(other, core)).toMatchObject({
        status: "skipped",
        reason: "core/backplane (core) has this name; core tools come first",
      });
    }
    expect(findWinner(old, bundled)).toBe("kernel/search");
    expect(findLoser(old, bundled)).toMatchObject({ status: "skipped" });
  },
);

verifies(
  "tools.precedence",
  "gives a name to the server or the plugin, whichever was registered first",
  () => {
    const early = createCandidate("mcp", "acme/server", "2024-01-01");
    const late = createCandidate("mcp", "acme/server", "2026-01-01");
    const plugin = createCandidate("plugin", "acme/plugin", "2025-01-01");
    expect(findWinner(plugin, early)).toBe("acme/server");
    expect(findWinner(late, plugin)).toBe("acme/plugin");
    for (const server of [early, late]) expect(findLoser(plugin, server).status).toBe("skipped");
    // A claimed install date is compared only among plugins, so a plugin cannot use it to take the name of a server.
    const forged = createCandidate("plugin", "evil/plugin", "1970-01-01", { registered_at: "2026-06-01" });
    expect(findWinner(forged, late)).toBe("acme/server");
    expect(findWinner(forged, plugin)).toBe("evil/plugin");
    for (const all of [
      [forged, late, plugin],
      [late, plugin, forged],
      [plugin, forged, late],
    ])
      expect(findWinner(...all)).toBe("acme/server");
  },
);

verifies(
  "tools.precedence",
  "ranks user plugins by install date, unknown last, and fails the second registration",
  () => {
    const first = createCandidate("plugin", "zeta/first", "2024-01-01");
    const second = createCandidate("plugin", "acme/second", "2025-01-01");
    const unknown = createCandidate("plugin", "acme/unknown");
    const { winners, losers } = rank([unknown, second, first]);
    expect(winners.get("search")).toBe(first);
    expect(losers.map(({ candidate, status }) => [candidate.package_id, status])).toEqual([
      ["acme/second", "failed"],
      ["acme/unknown", "failed"],
    ]);
    expect(losers[0]!.reason).toBe(
      "acme/second could not register search: zeta/first (plugin) has this name and was installed first",
    );
  },
);

verifies(
  "instr.collision",
  "fails the second of two plugins with InstrumentNameCollision and lets a core name win",
  () => {
    const first = createCandidate("plugin", "acme/first", "2024", { instrument: true });
    const second = createCandidate("plugin", "acme/second", "2025", { instrument: true });
    expect(findLoser(first, second)).toMatchObject({
      status: "failed",
      reason: expect.stringMatching(/^InstrumentNameCollision: acme\/second .* acme\/first/),
    });
    expect(findLoser(createCandidate("core", "core/backplane"), first)).toMatchObject({ status: "skipped" });
  },
);

test("detects collisions of names that look alike and rejects names with invisible characters", () => {
  const first = createCandidate("plugin", "acme/first", "2024", { name: "search" });
  const twin = createCandidate("plugin", "acme/twin", "2025", { name: "seаrch" });
  const ghost = createCandidate("plugin", "acme/ghost", "2023", { name: "sea\u200brch" });
  const { winners, losers } = rank([first, twin, ghost]);
  expect([...winners.keys()]).toEqual(["search"]);
  expect(losers.map(({ candidate, reason }) => [candidate.package_id, reason])).toEqual([
    ["acme/ghost", "its name is invalid: it contains invisible characters"],
    ["acme/twin", expect.stringContaining("has search, which looks the same,")],
  ]);
});

const searcher = toolPlugin("searcher", {
  name: "search",
  description: "Searches.",
  parameters: { type: "object" },
  effect_class: "read_only",
  run: () => ({ ok: true, brief: "found", display: { kind: "text", text: "found" } }),
});

verifies(
  "tools.precedence",
  "lists tools whose name is taken with the reason, warns once and counts rollout versions as one tool",
  async () => {
    const fixture = await createTestKernel({ plugins: [searcher] });
    await fixture.bind(manifest([toolExport("search")], { package_id: "acme/one" }));
    const first = await fixture.bind(
      manifest([toolExport("find")], { package_id: "acme/one", version: "1.0.0" }),
    );
    await fixture.kernel.bindings.patch(
      admin,
      first.binding_id,
      { rollout: { traffic_percent: 50 } },
      undefined,
    );
    await fixture.bind(manifest([toolExport("find")], { package_id: "acme/one", version: "2.0.0" }), {
      rollout: { traffic_percent: 50 },
    });
    fixture.clock.wall_offset += 1_000;
    await fixture.bind(manifest([toolExport("find")], { package_id: "acme/two" }));
    const { catalog } = fixture.kernel;
    const all = await catalog.listEntries(user, { all: true });
    expect(all.map(({ name, package_id, status }) => [name, package_id, status])).toEqual([
      ["find", "acme/one", "offered"],
      ["find", "acme/two", "failed"],
      ["harness_action", "core/backplane", "hidden"],
      ["model_sampling", "core/backplane", "hidden"],
      ["plugin_install", "core/backplane", "hidden"],
      ["plugin_unload", "core/backplane", "hidden"],
      ["plugins_list", "core/backplane", "hidden"],
      ["search", "kernel/searcher", "offered"],
      ["search", "acme/one", "skipped"],
      ["server_request", "core/backplane", "hidden"],
      ["tool_search", "core/backplane", "hidden"],
    ]);
    await catalog.listEntries(user, { all: true });
    const logged = fixture.logged.filter(({ message }) => message.startsWith("tool "));
    expect(logged.map(({ level, fields }) => [level, (fields as { package_id: string }).package_id])).toEqual(
      [
        ["warn", "acme/one"],
        ["error", "acme/two"],
      ],
    );
    // The name refers to the first package; the other is called by its package.
    expect((await fixture.call({ export_id: "find" })).package_id).toBe("acme/one");
    expect((await fixture.call({ export_id: "find", package_id: "acme/two" })).package_id).toBe("acme/two");
    expect((await fixture.call({ export_id: "search" })).package_id).toBe("kernel/searcher");
  },
);

test("reports the tool that a look-alike name collides with", async () => {
  const fixture = await createTestKernel();
  await fixture.bind(manifest([toolExport("list_all")], { package_id: "acme/one" }));
  fixture.clock.wall_offset += 1_000;
  await fixture.bind(manifest([toolExport("Iist_all")], { package_id: "acme/two" }));
  // The collision is logged although nobody has read the catalog.
  await until(() => fixture.logged.some(({ message }) => message === "tool not registered"));
  expect((await fixture.kernel.catalog.list(user)).map(({ name }) => name)).toEqual(["list_all"]);
  const explain = (name: string) =>
    fixture.kernel.policy.explain(admin, { tool: name, context: "conversation" });
  await expect(explain("Iist_all")).rejects.toMatchObject({
    code: "tool.collision",
    message: expect.stringContaining(
      "acme/one (plugin) has list_all, which looks the same, and was installed first",
    ),
  });
  expect((await explain("list_all")).losers).toMatchObject([{ name: "Iist_all", status: "failed" }]);
  await expect(explain("nothing")).rejects.toMatchObject({ code: "tool.not_found" });
});

test("ranks a package with a reserved publisher like any plugin", async () => {
  const fixture = await createTestKernel();
  await fixture.bind(manifest([toolExport("tool_search")], { package_id: "core/backplane" }));
  const [core_entry, plugin_entry] = await fixture.kernel.catalog.get(user, "tool_search");
  expect([core_entry?.origin, plugin_entry?.origin, plugin_entry?.status]).toEqual([
    "core",
    "plugin",
    "skipped",
  ]);
});

/** A package that describes its tools when it is bound. */
const buildDescribedManifest = (package_id: string, protocol: string) =>
  manifest([], { package_id, runtime: { protocol, entrypoint: ["node", "plugin.js"] } });
const buildDescription = (id: string, more: object = {}) => ({
  exports: [
    ToolExportSchema.parse({ id, kind: "tool", description: id, tool: { effect_class: "unknown", ...more } }),
  ],
  schemas: {},
  warnings: [],
  info: {},
});

verifies(
  "instr.collision",
  "does not register the second of two instruments with one name, and names both plugins in the reason",
  async () => {
    const fixture = await createTestKernel();
    fixture.runner.description = () => buildDescription("lookup", { risk: "low" });
    await fixture.bind(buildDescribedManifest("acme/first", "hefty.jsonrpc"));
    fixture.clock.wall_offset += 1_000;
    await fixture.bind(buildDescribedManifest("acme/second", "hefty.jsonrpc"));
    fixture.runner.description = () => buildDescription("tool_search");
    await fixture.bind(buildDescribedManifest("acme/third", "hefty.jsonrpc"));
    const named = await fixture.kernel.catalog.get(user, "lookup");
    expect(named.map(({ package_id, status, risk }) => [package_id, status, risk])).toEqual([
      ["acme/first", "offered", "low"],
      ["acme/second", "failed", "low"],
    ]);
    expect(named[1]!.reason).toMatch(/^InstrumentNameCollision: acme\/second .* acme\/first/);
    const logged = fixture.logged.filter(({ message }) => message.startsWith("tool "));
    expect(logged.map(({ level, fields }) => [level, (fields as { package_id: string }).package_id])).toEqual(
      [
        ["error", "acme/second"],
        ["warn", "acme/third"],
      ],
    );
  },
);

test("gives tools of an MCP server the origin mcp, and an unknown risk unless the policy sets one", async () => {
  const fixture = await createTestKernel();
  fixture.runner.description = () => buildDescription("mcp_notes_add", { hints: { readOnlyHint: true } });
  await fixture.bind(buildDescribedManifest("acme/notes", "mcp.stdio"));
  const [entry] = await fixture.kernel.catalog.get(user, "mcp_notes_add");
  expect(entry).toMatchObject({ origin: "mcp", risk: "unknown", status: "offered" });
  await fixture.kernel.policy.put(admin, "org", { risks: { mcp_notes_add: "low" } });
  expect((await fixture.kernel.catalog.get(user, "mcp_notes_add"))[0]!.risk).toBe("low");
  await fixture.kernel.policy.put(admin, "org", { allowed_origins: ["plugin"] });
  expect((await fixture.kernel.catalog.get(user, "mcp_notes_add"))[0]).toMatchObject({ status: "hidden" });
});

test("dates a plugin by the install date that it claims, or else by its installation here", () => {
  const findInstallDate = (first_installed_at: string | null) => {
    const pack = {
      package_id: "acme/x",
      manifest: manifest([toolExport("x")]),
      installed_at: "2026",
      first_installed_at,
    };
    return candidateOf([{ binding: { export_id: "x", created_at: "2027" }, package: pack } as never])
      .installed_at;
  };
  expect([findInstallDate("2019"), findInstallDate(null)]).toEqual(["2019", "2026"]);
});

test("keeps the date of the first version when a package is upgraded", () => {
  const bound = (version: string, installed_at: string, created_at: string) => ({
    binding: { export_id: "x", created_at },
    package: { package_id: "acme/x", version, manifest: manifest([toolExport("x")]), installed_at },
  });
  const both = [bound("2.0.0", "2026-02", "2026-04"), bound("1.0.0", "2026-01", "2026-03")];
  for (const all of [both, both.toReversed()]) {
    expect(candidateOf(all as never)).toMatchObject({ installed_at: "2026-01", registered_at: "2026-01" });
  }
});

test("replaces the org's binding with the project's while the project's takes all traffic", () => {
  const bound = (id: string, project_id: string | null, percent: number, more: object = {}) => ({
    binding: {
      binding_id: id,
      export_id: "x",
      status: "active",
      scope: { org_id: "org_local", project_id },
      rollout: { traffic_percent: percent },
    },
    package: { origin: "folder", manifest: manifest([toolExport("x")]), ...more },
  });
  const listUsable = (scope_id: string | null, ...bindings: ReturnType<typeof bound>[]) =>
    selectUsable(bindings as never, { org_id: "org_local", project_id: scope_id }).map(
      ({ binding }) => binding.binding_id,
    );
  const org = bound("org", null, 100);
  expect(listUsable("p", org, bound("own", "p", 100))).toEqual(["own"]);
  expect(listUsable("p", org, bound("own", "p", 99))).toEqual(["org", "own"]);
  expect(listUsable("p", org, bound("half", "p", 50), bound("rest", "p", 50))).toEqual(["half", "rest"]);
  const core = bound("core", null, 100, { origin: "core" });
  expect(listUsable("p", core, bound("own", "p", 100))).toEqual(["core", "own"]);
});
