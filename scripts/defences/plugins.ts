/** Kernel plugins, hosted in a sandbox or inline with a guard on their connections; instrument plugins. */
import { type Mutant, RUNNER } from "./mutant.ts";

const PLUGIN_TREE = ["packages/runner/test/module-host/plugin-tree.test.ts"];
const LOADER = ["packages/gateway/test/plugins/plugin-loader.test.ts"];
const GUARD = ["packages/gateway/test/plugins/network-guard.test.ts"];
const INSTRUMENTS = ["packages/servers/test/instruments/instruments.test.ts"];

export const PLUGIN_DEFENCES: Mutant[] = [
  {
    defence: "hosted: no plain process instead of a sandbox",
    file: `${RUNNER}/module-host/prepare-plugin.ts`,
    from: "if (refusal === null) return sandbox;",
    to: "if (refusal === null || sandbox === null) return sandbox;",
    tests: ["packages/runner/test/module-host/module-host.test.ts"],
  },
  {
    defence: "hosted: the home is hidden in a linked folder",
    file: `${RUNNER}/module-host/plugin-tree.ts`,
    from: "hidden: own.map(inside),",
    to: "hidden: [],",
    tests: PLUGIN_TREE,
  },
  {
    defence: "hosted: links out of a workspace show nothing",
    file: `${RUNNER}/module-host/plugin-tree.ts`,
    from: "!isWithin(root, target) || target === root ||",
    to: "target === root ||",
    tests: PLUGIN_TREE,
  },
  {
    defence: "hosted: no network except the operator's names",
    file: `${RUNNER}/module-host/prepare-plugin.ts`,
    from: "const grant = grantOf(network);",
    to: 'const grant = grantOf({ ...network, allowed_domains: ["*", "localhost"] });',
    tests: LOADER,
  },
  {
    defence: "hosted: only what is installed beside it, not the gateway's folder",
    file: `${RUNNER}/module-host/plugin-tree.ts`,
    from: "return { root, siblings: [join(root, MODULES)] };",
    to: "return { root, siblings: [root] };",
    tests: LOADER,
  },
  {
    defence: "hosted: one user per state folder",
    file: `${RUNNER}/sandbox/state-user.ts`,
    from: "if (others.has(uid)) continue;",
    to: "",
    tests: ["packages/runner/test/sandbox/state-user.test.ts"],
  },
  {
    defence: "inline: connections are checked",
    file: "packages/gateway/src/plugins/network-guard.ts",
    from: "if (refusal === null) return connect.apply(this, pinned(args, plugin, target!));",
    to: "return connect.apply(this, args);",
    tests: GUARD,
  },
  {
    defence: "inline: the gateway's own code is not the plugin's",
    file: "packages/gateway/src/plugins/network-guard.ts",
    from: "leave: (work) => running.run(undefined, work),",
    to: "leave: (work) => work(),",
    tests: GUARD,
  },
  {
    defence: "inline: tools are the plugin's code too",
    file: "packages/gateway/src/plugins/inline-plugin.ts",
    from: "ctx.registerTool(guardTool(tool, who, guard))",
    to: "ctx.registerTool(tool)",
    tests: GUARD,
  },
  {
    defence: "data folder: a process waits for the provider inside the gateway",
    file: `${RUNNER}/runner/create-runner.ts`,
    from: "waitForInline: (folder) => inline.releaseFolder(folder),",
    to: "waitForInline: async () => {},",
    tests: ["packages/runner/test/inline/inline-instruments.test.ts"],
  },
  {
    defence: "data folder: a folder of an earlier version is neither lost nor mixed with another",
    file: `${RUNNER}/plugin-folders/data-folders.ts`,
    from: "if (await exists(folder)) return former;",
    to: "if (await exists(folder)) return folder;",
    tests: ["packages/runner/test/dialects/instruments/instrument-rpc.test.ts"],
  },
  {
    defence: "instruments: the host's settings stay in its own organisation",
    file: "packages/registry/src/config/effective-config.ts",
    from: "instrument === undefined || binding.scope.org_id !== PLUGIN_SETTINGS_SCOPE.org_id",
    to: "instrument === undefined || PLUGIN_SETTINGS_SCOPE.org_id === undefined",
    tests: INSTRUMENTS,
  },
  {
    defence: "instruments: a start does not load what an operator unloaded",
    file: "packages/servers/src/instruments/instruments.ts",
    from: 'binding.status === "disabled" && !keep_unloaded',
    to: 'binding.status === "disabled"',
    tests: INSTRUMENTS,
  },
  {
    defence: "instruments: a jar that runs as External is announced",
    file: "packages/registry/src/definitions/definitions.ts",
    from: 'if (instrument === undefined || instrument.isolation === "External" || protocol !== "hefty.jsonrpc")',
    to: 'if (instrument === undefined || instrument.isolation !== "External" || protocol !== "hefty.jsonrpc")',
    tests: INSTRUMENTS,
  },
  {
    defence: "bus: a published list of values stays closed",
    file: "packages/contract/src/schema/bus.ts",
    from: 'kind: z.enum(["validation", "not_found", "rejected"]),',
    to: "kind: text,",
    tests: ["packages/session/test/bus/published-events.test.ts"],
  },
  {
    defence: "bus: a required field of a published payload stays required",
    file: "packages/contract/src/schema/bus.ts",
    from: '"config.updated": z.looseObject({ key: text, prefix_match_hint: text }),',
    to: '"config.updated": z.looseObject({ key: text, prefix_match_hint: text.optional() }),',
    tests: ["packages/session/test/bus/published-events.test.ts"],
  },
  {
    defence: "tool files: the package of the types needs no installation",
    file: "packages/sdk/src/host/tool-files/load-tool-file.ts",
    from: "virtualModules: { [PLUGIN_API]: { __esModule: true, default: {} } },",
    to: "virtualModules: {},",
    tests: ["packages/sdk/test/host/tool-files.test.ts"],
    only: "resolves the package of the types",
  },
];
