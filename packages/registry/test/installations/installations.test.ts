/** One operation installs and binds every source, in one transaction, with SQLite and PostgreSQL. */
import { BackplaneError, type ProgressReport } from "@backplane/contract";
import type { Store } from "@backplane/ports";
import { openPostgresStore } from "@backplane/store";
import { admin } from "@backplane/test-kit/kernel/test-kernel";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startPostgres, type TestPostgres } from "../../../../test/support/store/postgres.ts";
import { verifies } from "../../../../test/support/verifies.ts";
import {
  agentPluginFiles,
  createInstaller,
  expectNothingStored,
  kitFiles,
  mcpJson,
  openSqlite,
  packArchive,
} from "./installer.ts";

let server: TestPostgres;
let schemas = 0;
beforeAll(async () => {
  server = await startPostgres();
});
afterAll(() => server?.stop());

const openPostgres = () => openPostgresStore({ url: server.url, schema: `install_${++schemas}` });

describe.each([
  ["SQLite", openSqlite],
  ["PostgreSQL", openPostgres],
])("with %s", (_name, open) => {
  const createStoreInstaller = async (wrap: (store: Store) => Store = (store) => store) =>
    await createInstaller(wrap(await open()));

  verifies(
    "run.progress",
    "a cancelled installation stores nothing unless its commit has begun",
    async () => {
      const installer = await createStoreInstaller();
      const { installations } = installer.fixture.kernel;
      const cancel_conditions: ((progress: ProgressReport) => boolean)[] = [
        ({ step }) => step === "read",
        ({ step }) => step === "unpack",
        ({ step }) => step === "check",
        // Everything is imported; the rows are planned next.
        ({ unit, done, total }) => unit === "files" && done === total,
      ];
      for (const shouldCancel of cancel_conditions) {
        const stop = new AbortController();
        const report = (progress: ProgressReport) => {
          if (shouldCancel(progress)) stop.abort();
        };
        const archive = await packArchive(installer.writeFolder("kit", kitFiles("1.0.0")));
        const installing = installations.install(
          admin,
          archive,
          { bind: true },
          { signal: stop.signal, report },
        );
        await expect(installing).rejects.toMatchObject({ code: "request.cancelled" });
        await expectNothingStored(installer);
        expect(installer.writes).toEqual([]);
      }
      const stop = new AbortController();
      const report = (progress: ProgressReport) => {
        if (progress.step === "store") stop.abort();
      };
      const archive = await packArchive(installer.writeFolder("kit", kitFiles("1.0.0")));
      const done = await installations.install(
        admin,
        archive,
        { bind: true },
        { signal: stop.signal, report },
      );
      expect(done.bindings).toHaveLength(2);
      expect(await installer.listPackages()).toHaveLength(1);
    },
  );

  verifies(
    "pkg.install-atomic",
    "stores the package and the bindings of all its exports in one transaction",
    async () => {
      const installer = await createStoreInstaller();
      await installer.fixture.kernel.secrets.put(admin, "token", "s3cr3t-value");
      const archive = await packArchive(installer.writeFolder("kit", kitFiles("1.0.0")));
      const done = await installer.install(archive, {
        bind: true,
        config: { team: "ops" },
        secrets: { token: "secret://org_local/token" },
        policy: { timeout_ms: 5_000 },
      });
      expect(installer.writes).toEqual(["installations.commit"]);
      expect(done).toMatchObject({
        kind: "package",
        packages: [{ package: { package_id: "acme/kit", version: "1.0.0" }, created: true }],
        bindings: [
          // Only `greet` declares a configuration and the slot.
          { change: "created", binding: { export_id: "wave", config: {}, secrets: {}, status: "active" } },
          {
            change: "created",
            binding: { export_id: "greet", config: { team: "ops" }, policy: { timeout_ms: 5_000 } },
          },
        ],
        left_out: [],
        notes: [],
      });
      expect(await installer.listBindings()).toEqual(["acme/kit@1.0.0 greet", "acme/kit@1.0.0 wave"]);
      const actions = (await installer.fixture.kernel.audit.list(admin, {}, { limit: 50 })).items.map(
        ({ action }) => action,
      );
      expect(actions.filter((action) => /^(package|binding)/.test(action)).sort()).toEqual([
        "binding.create",
        "binding.create",
        "package.install",
      ]);
    },
  );

  verifies("pkg.install-atomic", "reports an installation that changes nothing as unchanged", async () => {
    const installer = await createStoreInstaller();
    const folder = installer.writeFolder("kit", kitFiles("1.0.0"));
    const first = await installer.install(await packArchive(folder), { bind: true });
    const again = await installer.install(await packArchive(folder), {
      bind: true,
      policy: { timeout_ms: 9_000 },
    });
    expect(again.packages).toEqual(first.packages.map((item) => ({ ...item, created: false })));
    expect(again.bindings).toEqual(first.bindings.map(({ binding }) => ({ binding, change: "unchanged" })));
    expect(installer.listDigests()).toHaveLength(1);
  });

  verifies(
    "pkg.install-atomic",
    "keeps the installed version when other content has the same version number",
    async () => {
      const installer = await createStoreInstaller();
      await installer.install(await packArchive(installer.writeFolder("kit", kitFiles("1.0.0"))), {
        bind: true,
      });
      const initial_state = [
        await installer.listPackages(),
        await installer.listBindings(),
        installer.listDigests(),
      ];
      const other_archive = await packArchive(
        installer.writeFolder("other", kitFiles("1.0.0", { remark: "other" })),
      );
      await expect(installer.install(other_archive, { bind: true })).rejects.toMatchObject({
        code: "package.conflict",
      });
      expect([
        await installer.listPackages(),
        await installer.listBindings(),
        installer.listDigests(),
      ]).toEqual(initial_state);
    },
  );

  test.each(["during", "before"])("stores nothing when the store fails %s the commit", async (when) => {
    const installer = await createStoreInstaller((store) => ({
      ...store,
      installations: {
        async commit(rows) {
          // A row that the database refuses aborts the transaction after other rows were written.
          if (when === "during") {
            const created = [...rows.created, { ...rows.created[0]! }];
            return await store.installations.commit({ ...rows, created });
          }
          throw new BackplaneError("store.unavailable", "The disk is not available.");
        },
      },
    }));
    const archive = await packArchive(installer.writeFolder("kit", kitFiles("1.0.0")));
    await expect(installer.install(archive, { bind: true })).rejects.toMatchObject({
      code: expect.stringMatching(/^(store\.unavailable|binding\.conflict|internal)$/),
    });
    await expectNothingStored(installer);
  });

  verifies(
    "pkg.install-atomic",
    "moves all bindings to the next version in the transaction that installs it",
    async () => {
      const installer = await createStoreInstaller();
      await installer.install(
        await packArchive(installer.writeFolder("one", kitFiles("1.0.0", { slots: [] }))),
        {
          bind: true,
          policy: { timeout_ms: 5_000 },
        },
      );
      installer.writes.length = 0;
      const two = await installer.install(
        await packArchive(installer.writeFolder("two", kitFiles("2.0.0", { slots: [] }))),
        {
          bind: true,
        },
      );
      expect(installer.writes).toEqual(["installations.commit"]);
      expect(two.bindings).toMatchObject([
        { change: "moved", binding: { package_version: "2.0.0", policy: { timeout_ms: 5_000 } } },
        { change: "moved", binding: { package_version: "2.0.0", previous: { package_version: "1.0.0" } } },
      ]);
      expect(await installer.listBindings()).toEqual(["acme/kit@2.0.0 greet", "acme/kit@2.0.0 wave"]);
    },
  );

  test("does not install a version that a bound export cannot move to", async () => {
    const installer = await createStoreInstaller();
    await installer.install(
      await packArchive(installer.writeFolder("one", kitFiles("1.0.0", { slots: [] }))),
      {
        bind: true,
      },
    );
    const initial_state = [
      await installer.listPackages(),
      await installer.listBindings(),
      installer.listDigests(),
    ];
    // An active binding must not lose its secret.
    const next = await packArchive(installer.writeFolder("two", kitFiles("2.0.0", { slots: ["fresh"] })));
    await expect(installer.install(next, { bind: true })).rejects.toThrow(/needs a secret/);
    expect([await installer.listPackages(), await installer.listBindings(), installer.listDigests()]).toEqual(
      initial_state,
    );
  });

  test("gives a new version its own share of the traffic next to the bound version", async () => {
    const installer = await createStoreInstaller();
    await installer.install(
      await packArchive(installer.writeFolder("one", kitFiles("1.0.0", { slots: [] }))),
      {
        bind: true,
      },
    );
    const two = installer.writeFolder("two", kitFiles("2.0.0", { slots: [] }));
    const rollout = { traffic_percent: 10 };
    const done = await installer.install(await packArchive(two), { bind: true, rollout });
    expect(done.bindings.map(({ change }) => change)).toEqual(["created", "created"]);
    expect(await installer.listBindings()).toHaveLength(4);
    // The rollout does not change when the version is installed again.
    const again = await installer.install(await packArchive(two), { bind: true });
    expect(again.bindings.map(({ change }) => change)).toEqual(["unchanged", "unchanged"]);
    expect(await installer.listBindings()).toHaveLength(4);
  });

  test("stores a source once when it is installed several times at the same time", async () => {
    const installer = await createStoreInstaller();
    const folder = installer.writeFolder("kit", kitFiles("1.0.0", { slots: [] }));
    const sources = await Promise.all(Array.from({ length: 4 }, () => packArchive(folder)));
    const done = await Promise.all(sources.map((source) => installer.install(source, { bind: true })));
    const created = done.filter(({ packages }) => packages[0]!.created);
    expect(created).toHaveLength(1);
    for (const { bindings } of done) expect(bindings).toHaveLength(2);
    const changes = done.flatMap(({ bindings }) => bindings.map(({ change }) => change));
    expect(changes.filter((change) => change === "created")).toHaveLength(2);
    expect(await installer.listBindings()).toEqual(["acme/kit@1.0.0 greet", "acme/kit@1.0.0 wave"]);
    expect(installer.listDigests()).toHaveLength(1);
  });

  test("plans again when a binding is changed between reading and committing", async () => {
    let change: (() => Promise<unknown>) | null = null;
    const installer = await createStoreInstaller((store) => ({
      ...store,
      installations: {
        async commit(rows) {
          const first = change;
          change = null;
          await first?.();
          return await store.installations.commit(rows);
        },
      },
    }));
    const installed = await installer.install(
      await packArchive(installer.writeFolder("one", kitFiles("1.0.0", { slots: [] }))),
      {
        bind: true,
      },
    );
    const { binding_id } = installed.bindings[0]!.binding;
    change = () =>
      installer.fixture.kernel.bindings.patch(
        admin,
        binding_id,
        { policy: { timeout_ms: 7_000 } },
        undefined,
      );
    const upgraded = await installer.install(
      await packArchive(installer.writeFolder("two", kitFiles("2.0.0", { slots: [] }))),
      {
        bind: true,
      },
    );
    const moved = upgraded.bindings.find(({ binding }) => binding.binding_id === binding_id);
    expect(moved).toMatchObject({ change: "moved", binding: { policy: { timeout_ms: 7_000 } } });
  });

  test("leaves out an unusable server of an mcp.json, and installs nothing with strict", async () => {
    const installer = await createStoreInstaller();
    const source = mcpJson({
      far: { url: "https://far.invalid/mcp", headers: { Authorization: "Bearer hunter2" } },
      own: { command: "/opt/own/server" },
      near: { command: "python3", args: ["-m", "near"], env: { LEVEL: "info", API_KEY: "x" } },
    });
    await expect(installer.install(source, { strict: true })).rejects.toMatchObject({
      code: "package.invalid",
      message: expect.stringContaining("The server own cannot be used"),
    });
    await expectNothingStored(installer);
    installer.writes.length = 0;
    const done = await installer.install(source);
    expect(installer.writes).toEqual(["installations.commit"]);
    expect(done).toMatchObject({
      kind: "mcp_servers",
      packages: [{ package: { package_id: "mcp/far" } }, { package: { package_id: "mcp/near" } }],
      bindings: [
        { binding: { unbound_slots: ["authorization"], status: "inactive" } },
        {
          binding: {
            config: { args: ["-m", "near"], env: { LEVEL: "info" } },
            policy: { secret_env: { api_key: "API_KEY" } },
          },
        },
      ],
      left_out: [{ kind: "server", name: "own" }],
    });
    expect(JSON.stringify(done)).not.toContain("hunter2");
  });

  test("leaves out a second server of the same package, and stores no server if one binding is invalid", async () => {
    const installer = await createStoreInstaller();
    const far = { url: "https://far.invalid/mcp" };
    await expect(installer.install(mcpJson({ far, Far: far }), { strict: true })).rejects.toThrow(
      "The server Far",
    );
    await expectNothingStored(installer);
    const done = await installer.install(mcpJson({ far, Far: far }));
    expect(done.left_out).toMatchObject([
      { name: "Far", reason: expect.stringContaining("far is the same package") },
    ]);
    const two_servers = mcpJson({
      one: { url: "https://one.invalid/mcp" },
      two: { url: "https://two.invalid/mcp" },
    });
    const failing = { secrets: { key: "secret://org_local/none" } };
    await expect(installer.install(two_servers, failing)).rejects.toMatchObject({ code: "binding.invalid" });
    expect(await installer.listPackages()).toEqual(["mcp/far@0.0.0"]);
    expect(installer.listDigests()).toHaveLength(1);
  });
});

test.each([
  ["an unknown secret slot", { bind: true, secrets: { nothing: "secret://org_local/a" } }, /slot nothing/],
  ["a secret that does not exist", { bind: true, secrets: { token: "secret://org_local/a" } }, /no secret/],
  ["an invalid configuration of the second export", { bind: true, config: { team: 7 } }, /config\/team/],
  ["settings without a binding", { config: { team: "ops" } }, /nothing is bound/],
])("leaves no row and no bytes after %s", async (_what, settings, reason) => {
  const installer = await createInstaller(await openSqlite());
  const archive = await packArchive(installer.writeFolder("kit", kitFiles("1.0.0")));
  await expect(installer.install(archive, settings)).rejects.toThrow(reason);
  await expectNothingStored(installer);
  expect(installer.writes).toEqual([]);
});

test("detects the format of an archive and binds packages that describe themselves", async () => {
  const installer = await createInstaller(await openSqlite());
  const tool = "export default { description: 'A tool.', execute: () => ({ content: 'ok' }) };";
  const tools = await installer.install(
    await packArchive(installer.writeFolder("files", { "tools/greet.ts": tool })),
  );
  expect(tools).toMatchObject({
    kind: "package",
    bindings: [{ change: "created", binding: { export_id: "*" } }],
  });
  const description = {
    id: "bench",
    name: "Bench",
    version: "1.0.0",
    author: "Acme",
    description: "A bench.",
  };
  const instrument = await packArchive(
    installer.writeFolder("bench", {
      "META-INF/hefty-plugin.json": JSON.stringify({
        ...description,
        providerClass: "./provider.mjs#Provider",
        isolationMode: "External",
      }),
      "provider.mjs": "export class Provider {}",
    }),
  );
  expect(await installer.install(instrument)).toMatchObject({
    bindings: [{ binding: { package_id: "hefty/bench" } }],
  });
  const office = await installer.install(
    await packArchive(installer.writeFolder("office", agentPluginFiles())),
  );
  expect(office).toMatchObject({
    kind: "agent_plugin",
    plugin: { name: "office", version: "1.0.0" },
    bindings: [{ binding: { package_id: "office/notes" } }, { binding: { package_id: "office/skills" } }],
    left_out: [{ name: "old" }],
  });
  // A package that lists its exports is bound only on request.
  expect(
    (await installer.install(await packArchive(installer.writeFolder("kit", kitFiles("1.0.0"))))).bindings,
  ).toEqual([]);
  expect(
    (
      await installer.install(await packArchive(installer.writeFolder("tools", { "tools/x.ts": tool })), {
        bind: false,
      })
    ).bindings,
  ).toEqual([]);
});

test("describes a source without installing anything", async () => {
  const installer = await createInstaller(await openSqlite());
  const { installations } = installer.fixture.kernel;
  expect(
    await installations.inspect(admin, await packArchive(installer.writeFolder("kit", kitFiles("1.0.0")))),
  ).toEqual({
    kind: "package",
    packages: [
      {
        name: "Kit",
        package_id: "acme/kit",
        version: "1.0.0",
        secret_slots: ["token"],
        exports: ["wave", "greet"],
        binds: false,
        manifest: expect.objectContaining({
          package_id: "acme/kit",
          exports: [expect.objectContaining({ id: "wave" }), expect.objectContaining({ id: "greet" })],
        }),
      },
    ],
    plugins: [],
    left_out: [],
    notes: [],
  });
  const office = { kind: "folder", path: installer.writeFolder("office", agentPluginFiles()) } as const;
  expect(await installations.inspect(admin, office)).toMatchObject({
    kind: "agent_plugin",
    plugin: { name: "office" },
    packages: [
      { package_id: "office/notes", binds: true },
      { package_id: "office/skills", exports: ["*"] },
    ],
    left_out: [{ name: "old" }],
  });
  const npx = { command: "npx", args: ["-y", "@acme/mcp-demo@1.2.3"], env: { API_KEY: "x" } };
  expect(await installations.inspect(admin, mcpJson({ demo: npx }))).toMatchObject({
    kind: "mcp_servers",
    packages: [{ name: "demo", package_id: "acme/mcp-demo", version: "1.2.3", secret_slots: ["api_key"] }],
  });
  await expectNothingStored(installer);
});

test("lists kernel plugins on inspection, and refuses to install them as packages", async () => {
  const installer = await createInstaller(await openSqlite());
  const manifest = {
    name: "acme-memory",
    version: "1.2.0",
    exports: "./index.js",
    "yaya.plugins.v1": { "acme-memory": { category: "memory" } },
  };
  const path = installer.writeFolder("memory", {
    "package.json": JSON.stringify(manifest),
    "index.js": "export default {};",
  });
  const { installations } = installer.fixture.kernel;
  const plugins = [{ name: "acme-memory", version: "1.2.0", category: "memory" }];
  for (const source of [{ kind: "folder", path } as const, await packArchive(path)])
    expect(await installations.inspect(admin, source)).toMatchObject({
      kind: "kernel_plugins",
      packages: [],
      plugins,
    });
  for (const source of [{ kind: "folder", path } as const, await packArchive(path)])
    await expect(installer.install(source)).rejects.toMatchObject({
      code: "package.source_invalid",
      fix: expect.stringContaining("backplane plugin install"),
    });
  const broken = { ...manifest, "yaya.plugins.v1": { "acme-memory": { category: "nothing" } } };
  const broken_folder = installer.writeFolder("broken", {
    "package.json": JSON.stringify(broken),
    "index.js": "",
  });
  await expect(installations.inspect(admin, { kind: "folder", path: broken_folder })).rejects.toMatchObject({
    code: "plugin.invalid",
  });
  await expectNothingStored(installer);
});
