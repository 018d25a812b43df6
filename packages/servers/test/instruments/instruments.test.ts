import type { JsonObject } from "@backplane/contract";
import type { BoundPackage, Caller } from "@backplane/ports";
import { manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { admin, createTestKernel, scope, until, user } from "@backplane/test-kit/kernel/test-kernel";
import { describe, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { findDependencyProblem, sortForLoading } from "../../src/instruments/dependencies.ts";
import { createInstrumentKernel, InstrumentRunner, instrumentManifest } from "./instrument-kernel.ts";

const createBoundPlugin = (id: string, dependencies: string[]) =>
  ({
    package: { manifest: instrumentManifest(id, dependencies) },
    binding: { scope },
  }) as unknown as BoundPackage;

describe("the load order of plugins", () => {
  const plugins = new Map(
    [
      createBoundPlugin("c", ["b"]),
      createBoundPlugin("b", ["a"]),
      createBoundPlugin("x", ["y"]),
      createBoundPlugin("y", ["x"]),
      createBoundPlugin("a", []),
    ].map((plugin) => [plugin.package.manifest.name, plugin]),
  );
  test("sorts each plugin after its dependencies, and cycles last", () => {
    expect(sortForLoading(plugins).map((plugin) => plugin.package.manifest.name)).toEqual([
      "a",
      "b",
      "c",
      "x",
      "y",
    ]);
  });
  test("reports a cycle with its members", async () => {
    const problem = await findDependencyProblem(plugins.get("x")!, plugins, async () => null);
    expect(problem?.message).toBe("x is skipped: its dependencies form a cycle: x → y → x.");
  });
});

describe("loading instrument plugins (instr.lifecycle)", () => {
  test("skips a plugin with a missing dependency, and loads it when the dependency is installed", async () => {
    const { bind, listStates, listOffered, runner } = await createInstrumentKernel();
    await bind("child", ["parent"]);
    await bind("other");
    expect(runner.described).toEqual(["other"]);
    expect(await listStates()).toEqual({
      child: "child is skipped: its dependency parent is not installed and bound.",
      other: "running",
    });
    expect(await listOffered()).toEqual(["other_tool"]);
    await bind("parent");
    expect(runner.described).toEqual(["other", "parent", "child"]);
    expect(await listStates()).toEqual({ child: "running", other: "running", parent: "running" });
    expect(await listOffered()).toEqual(["child_tool", "other_tool", "parent_tool"]);
  });

  test("offers the tools of a plugin only while all its dependencies are loaded", async () => {
    const { bind, fixture, listStates, listOffered, runner } = await createInstrumentKernel();
    const parent = await bind("parent");
    await bind("child", ["parent"]);
    await bind("grandchild", ["child"]);
    expect(await listOffered()).toEqual(["child_tool", "grandchild_tool", "parent_tool"]);
    runner.broken.add("parent");
    await fixture.kernel.bindings.patch(admin, parent.binding_id, { config: { a: 1 } }, undefined);
    expect(await listStates()).toMatchObject({
      parent: "parent is broken",
      child: "child is skipped: its dependency parent did not load: parent is broken.",
      grandchild: expect.stringContaining("its dependency child did not load"),
    });
    runner.broken.clear();
    await fixture.kernel.bindings.patch(admin, parent.binding_id, { config: {} }, undefined);
    expect(await listOffered()).toEqual(["child_tool", "grandchild_tool", "parent_tool"]);
    await fixture.kernel.bindings.remove(admin, parent.binding_id);
    expect(await listOffered()).toEqual([]);
  });

  test("skips plugins that depend on each other", async () => {
    const { bind, listStates } = await createInstrumentKernel();
    await bind("x", ["y"]);
    await bind("y", ["x"]);
    expect(await listStates()).toEqual({
      x: "x is skipped: its dependencies form a cycle: x → y → x.",
      y: "y is skipped: its dependencies form a cycle: y → x → y.",
    });
  });

  test("loads all plugins in order at start and logs each step", async () => {
    const { bind, fixture } = await createInstrumentKernel();
    await bind("loud");
    await bind("z-parent");
    await bind("a-child", ["z-parent"]);
    await fixture.crash();
    const runner = new InstrumentRunner();
    const restarted = await createTestKernel({ runner, file: fixture.file });
    for (let tries = 0; runner.described.length < 3 && tries < 500; tries++)
      await new Promise((done) => setTimeout(done, 5));
    expect(runner.described.indexOf("z-parent")).toBeLessThan(runner.described.indexOf("a-child"));
    for (let tries = 0; restarted.logged.length < 7 && tries < 200; tries++)
      await new Promise((done) => setTimeout(done, 5));
    const lines = restarted.logged.map(({ fields, level, message }) => [
      level,
      (fields as { plugin?: string }).plugin,
      message,
    ]);
    expect(lines).toContainEqual(["info", "a-child", "loading instrument plugin"]);
    expect(lines).toContainEqual(["info", "a-child", "instrument plugin loaded"]);
    expect(lines).toContainEqual(["warn", "loud", "instrument plugin has a warning"]);
  });
});

test("shows the binding that serves the calls, whichever binding is newer", async () => {
  const { bind, fixture } = await createInstrumentKernel();
  const org_admin = { ...admin, scope: { ...scope, project_id: null } };
  const project_binding = await bind("clock");
  const org_binding = await fixture.kernel.bindings.create(org_admin, {
    package_id: "hefty/clock",
    package_version: "1.0.0",
    export_id: "*",
  });
  const listShown = async (caller: typeof admin) =>
    (await fixture.kernel.instruments.list(caller)).map(({ binding_id }) => binding_id);
  const listServing = async (caller: typeof admin) =>
    (await fixture.kernel.catalog.listEntries(caller, { all: true }))
      .filter(({ name, status }) => name === "clock_tool" && status === "offered")
      .map(({ binding_id }) => binding_id);
  expect(await listServing(admin)).toEqual([project_binding.binding_id]);
  expect(await listShown(admin)).toEqual([project_binding.binding_id]);
  expect(await listServing(org_admin)).toEqual([org_binding.binding_id]);
  expect(await listShown(org_admin)).toEqual([org_binding.binding_id]);
  await fixture.kernel.bindings.patch(
    admin,
    project_binding.binding_id,
    { rollout: { traffic_percent: 0 } },
    undefined,
  );
  expect(await listServing(admin)).toEqual([org_binding.binding_id]);
  expect(await listShown(admin)).toEqual([org_binding.binding_id]);
});

verifies(
  "instr.isolation",
  "shows and logs that a JVM plugin runs as External, even when it does not load",
  async () => {
    const { fixture, runner } = await createInstrumentKernel();
    runner.broken.add("jar");
    const { binding_id } = await fixture.bind(instrumentManifest("jar", [], "InProcess"), { export_id: "*" });
    const warning = expect.stringMatching(/^jar declares isolationMode InProcess and runs as External/);
    const [skipped] = await fixture.kernel.instruments.list(admin);
    expect(skipped).toMatchObject({ state: "skipped", isolation: "InProcess", warnings: [warning] });
    runner.broken.clear();
    await fixture.kernel.definitions.refresh(admin, binding_id);
    const [running] = await fixture.kernel.instruments.list(admin);
    expect(running).toMatchObject({ state: "running", warnings: [warning] });
    await fixture.bind(instrumentManifest("program"), { export_id: "*" });
    const [, program] = await fixture.kernel.instruments.list(admin);
    expect(program).toMatchObject({ plugin_id: "program", warnings: [] });
    await fixture.crash();
    const restarted = await createTestKernel({ runner: new InstrumentRunner(), file: fixture.file });
    await until(() =>
      restarted.logged.some(
        ({ message, fields }) =>
          message === "instrument plugin has a warning" && (fields as { plugin?: string }).plugin === "jar",
      ),
    );
  },
);

describe("administration of instrument plugins (instr.admin)", () => {
  test("allows only admins to list, install and unload plugins", async () => {
    const { fixture } = await createInstrumentKernel();
    const { instruments } = fixture.kernel;
    await expect(instruments.list(user)).rejects.toMatchObject({ code: "policy.denied" });
    await expect(instruments.install(user, "/x")).rejects.toMatchObject({ code: "policy.denied" });
    await expect(instruments.unload(user, "x")).rejects.toMatchObject({ code: "policy.denied" });
  });

  test("refuses an org's admin key access to the host's disk and to class inline", async () => {
    const { fixture } = await createInstrumentKernel();
    const key = { ...admin, actor: "key_admin" };
    await expect(fixture.kernel.instruments.install(key, "/x")).rejects.toMatchObject({
      code: "package.source_forbidden",
    });
    const other = instrumentManifest("other");
    const content = { ...other, runtime: { ...other.runtime, protocol: "module.instrument" as const } };
    const { binding_id } = await fixture.bind(content, { export_id: "*" });
    const inline = { policy: { class: "inline" as const } };
    await expect(fixture.kernel.bindings.patch(key, binding_id, inline, undefined)).rejects.toMatchObject({
      code: "binding.class_forbidden",
      message: expect.stringContaining("Only the admin token"),
    });
    const trusted = await fixture.kernel.bindings.patch(admin, binding_id, inline, undefined);
    expect(trusted.class_lowered_by).toBe("admin");
  });

  test("shows state, warnings and instruments of a plugin, with an origin that the host sets", async () => {
    const { bind, fixture } = await createInstrumentKernel();
    const { binding_id } = await bind("loud");
    expect(await fixture.kernel.instruments.list(admin)).toEqual([
      {
        plugin_id: "loud",
        name: "loud",
        version: "1.0.0",
        author: "us",
        isolation: "External",
        dependencies: [],
        package_id: "hefty/loud",
        binding_id,
        class: "isolated",
        state: "running",
        error: null,
        warnings: [expect.stringContaining("lists no sideEffects")],
        instruments: [
          { name: "loud_tool", description: "x", origin: "plugin:loud", risk: "low", category: "Shell" },
        ],
      },
    ]);
  });

  verifies(
    "instr.collision",
    "lists the second of two plugins with the same instrument name as skipped",
    async () => {
      const { bind, fixture } = await createInstrumentKernel();
      const { binding_id } = await bind("one-name");
      fixture.clock.wall_offset += 1_000;
      const { path } = fixture.importer.add(instrumentManifest("one_name")) as { path: string };
      const installed = await fixture.kernel.instruments.install(admin, path);
      const listed = await fixture.kernel.instruments.list(admin);
      expect(listed.map(({ plugin_id, state, error }) => [plugin_id, state, error])).toEqual([
        ["one-name", "running", null],
        [
          "one_name",
          "skipped",
          {
            code: "tool.collision",
            message: expect.stringMatching(/^InstrumentNameCollision: hefty\/one_name .* hefty\/one-name/),
            fix: `backplane binding disable ${binding_id}`,
          },
        ],
      ]);
      expect(listed[1]!.warnings).toEqual([
        expect.stringMatching(/^one_name_tool is not offered: InstrumentNameCollision: hefty\/one_name /),
      ]);
      expect(installed).toEqual(listed[1]);
    },
  );

  test("only warns about an instrument that lost its name to a core tool", async () => {
    const { bind, fixture, runner } = await createInstrumentKernel();
    runner.names.set("shadow", "tool_search");
    await bind("shadow");
    expect(await fixture.kernel.instruments.list(admin)).toMatchObject([
      { state: "running", error: null, warnings: [expect.stringMatching(/^tool_search is not offered: /)] },
    ]);
  });

  test("removes the instruments on unload, and loads the plugin again with its settings", async () => {
    const { fixture, listOffered } = await createInstrumentKernel();
    const { path } = fixture.importer.add(instrumentManifest("other")) as { path: string };
    const { binding_id } = await fixture.kernel.instruments.install(admin, path, { config: { team: "ops" } });
    await fixture.kernel.instruments.unload(admin, "other");
    expect(await listOffered()).toEqual([]);
    // A restart of the gateway must not load a plugin that an operator has unloaded.
    await fixture.kernel.instruments.install(admin, path, { keep_unloaded: true });
    expect(await listOffered()).toEqual([]);
    const again = await fixture.kernel.instruments.install(admin, path);
    expect(again).toMatchObject({ binding_id, state: "running" });
    expect(await listOffered()).toEqual(["other_tool"]);
    expect((await fixture.kernel.bindings.get(admin, binding_id)).config).toEqual({ team: "ops" });
    await fixture.kernel.instruments.unload(admin, "other");
    await expect(fixture.kernel.instruments.unload(admin, "other")).rejects.toMatchObject({
      code: "plugin.not_found",
    });
  });

  test("does not offer the three admin tools outside a turn, and refuses a direct call", async () => {
    const { fixture } = await createInstrumentKernel();
    expect(await fixture.kernel.catalog.list(admin)).toEqual([]);
    expect(await fixture.kernel.catalog.list(user)).toEqual([]);
    const call = await fixture.call({ export_id: "plugins_list", input: {} }, admin);
    expect(JSON.stringify(call.result)).toContain("needs the caller of a turn");
  });
});

verifies(
  "upgrade.moves",
  "keeps the binding's policy, except host_target, when the next version is installed in another class",
  async () => {
    const { fixture } = await createInstrumentKernel();
    const bound = await fixture.bind(instrumentManifest("counter"), {
      export_id: "*",
      config: { team: "ops" },
      policy: { approval: "always", host_target: true },
    });
    const next = fixture.importer.add({ ...instrumentManifest("counter"), version: "2.0.0" });
    const { path } = next as { path: string };
    await fixture.kernel.instruments.install(admin, path, { class: "worker" });
    const upgraded = await fixture.kernel.bindings.get(admin, bound.binding_id);
    expect(upgraded).toMatchObject({ package_version: "2.0.0", config: { team: "ops" } });
    expect(upgraded.policy).toEqual({ approval: "always", class: "worker" });
    await fixture.kernel.instruments.install(admin, path, { class: "isolated" });
    expect((await fixture.kernel.bindings.get(admin, bound.binding_id)).policy).toEqual({
      approval: "always",
      class: "isolated",
    });
  },
);

test("upgrades the org-wide binding when a project installs a new version of the plugin", async () => {
  const { fixture } = await createInstrumentKernel();
  const bound = await fixture.bind(instrumentManifest("counter"), { export_id: "*", org_wide: true });
  const { path } = fixture.importer.add({ ...instrumentManifest("counter"), version: "2.0.0" });
  await fixture.kernel.instruments.install(admin, path);
  const { items } = await fixture.kernel.bindings.list(admin, {}, { limit: 5 });
  expect(items).toMatchObject([{ binding_id: bound.binding_id, package_version: "2.0.0" }]);
});

test("does not store a folder that is not an instrument plugin", async () => {
  const { fixture } = await createInstrumentKernel();
  const next = fixture.importer.add(manifest([toolExport("echo")]));
  const { path } = next as { path: string };
  await expect(fixture.kernel.instruments.install(admin, path)).rejects.toMatchObject({
    code: "package.invalid",
  });
  expect((await fixture.kernel.packages.list(admin, { limit: 5 })).items).toEqual([]);
});

verifies(
  "instr.context",
  "applies the host's settings of a plugin only in the host's organization, and prefers the binding's config",
  async () => {
    const runner = new InstrumentRunner();
    const configs: unknown[] = [];
    const describePlugin = runner.describe;
    runner.describe = async (request) => {
      configs.push(request.context.config);
      return await describePlugin(request);
    };
    const settings = new Map([["jira", { "base-url": "https://jira.example", team: "all" }]]);
    const fixture = await createTestKernel({ runner, host: { instrument_settings: settings } });
    await fixture.bind(instrumentManifest("jira"), { export_id: "*", config: { team: "ops" } });
    await fixture.bind(instrumentManifest("other"), { export_id: "*" });
    const other_org_admin = { ...admin, scope: { org_id: "org_other", project_id: "proj_default" } };
    const { path } = fixture.importer.add({ ...instrumentManifest("jira"), version: "2.0.0" }) as {
      path: string;
    };
    await fixture.kernel.instruments.install(other_org_admin, path);
    expect(configs).toEqual([{ "base-url": "https://jira.example", team: "ops" }, {}, {}]);
    const call = await fixture.call({ export_id: "jira_tool", input: {} });
    expect(call.status).toBe("succeeded");
    expect(runner.requests[0]!.context.config).toEqual(configs[0]);
  },
);

test("loads dependents again when a plugin is upgraded or rolled back", async () => {
  const { bind, fixture, runner } = await createInstrumentKernel();
  const { binding_id, package_id } = await bind("parent");
  await bind("child", ["parent"]);
  await fixture.kernel.packages.install(
    admin,
    fixture.importer.add({ ...instrumentManifest("parent"), version: "2.0.0" }),
  );
  runner.described = [];
  await fixture.kernel.bindings.upgrade(admin, { package_id, package_version: "2.0.0" });
  expect(runner.described).toEqual(["parent", "child"]);
  runner.described = [];
  await fixture.kernel.bindings.rollback(admin, binding_id);
  expect(runner.described).toEqual(["parent", "child"]);
});

verifies(
  "instr.context",
  "keeps the configuration of a removed plugin, per plugin id, organization and project",
  async () => {
    const { fixture } = await createInstrumentKernel();
    const { bindings } = fixture.kernel;
    const org_admin = { ...admin, scope: { ...scope, project_id: null } };
    const content = instrumentManifest("jira");
    const { package_id, version: package_version } = content;
    await fixture.kernel.packages.install(admin, fixture.importer.add(content));
    const body = { package_id, package_version, export_id: "*" };
    const install = async (caller: Caller, config?: JsonObject) =>
      await bindings.create(caller, { ...body, ...(config === undefined ? {} : { config }) });

    const first = await install(admin, { "base-url": "https://a.example.com" });
    const patch = { config: { "base-url": "https://b.example.com" } };
    const changed = await bindings.patch(admin, first.binding_id, patch, undefined);
    await bindings.remove(admin, first.binding_id);
    const again = await install(admin);
    expect(again.binding_id).not.toBe(first.binding_id);
    expect(again.config).toEqual(changed.config);

    // Another project, the whole org and another plugin have their own configuration.
    expect((await install(org_admin)).config).toEqual({});
    const other = instrumentManifest("confluence");
    expect((await fixture.bind(other, { export_id: "*" })).config).toEqual({});

    // A request with a configuration replaces the kept one, and an empty one removes it.
    await bindings.remove(admin, again.binding_id);
    const empty = await install(admin, {});
    expect(empty.config).toEqual({});
    await bindings.remove(admin, empty.binding_id);
    const last = await install(admin);
    expect(last.config).toEqual({});
  },
);

test("does not keep the configuration of a removed package that is not an instrument plugin", async () => {
  const fixture = await createTestKernel();
  const content = manifest([toolExport("echo")]);
  const { binding_id } = await fixture.bind(content, { config: { a: 1 } });
  await fixture.kernel.bindings.remove(admin, binding_id);
  expect((await fixture.bind(content)).config).toEqual({});
});
