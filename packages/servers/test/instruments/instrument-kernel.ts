/** A kernel with instrument plugins whose descriptions a test controls. */
import type { IsolationMode, Manifest } from "@backplane/contract";
import type { DescribeRequest, Description } from "@backplane/ports";
import { ScriptedRunner } from "@backplane/test-kit/kernel/scripted-runner";
import { admin, createTestKernel, user } from "@backplane/test-kit/kernel/test-kernel";

export function instrumentManifest(
  plugin_id: string,
  dependencies: string[] = [],
  isolation: IsolationMode = "External",
): Manifest {
  return {
    api_version: "vai.plugin.v1",
    package_id: `hefty/${plugin_id}`,
    version: "1.0.0",
    name: plugin_id,
    description: "",
    license: "",
    source: "",
    runtime: {
      protocol: "hefty.jsonrpc",
      transport: "stdio",
      entrypoint: ["./plugin"],
      env: {},
      instrument: { plugin_id, author: "us", isolation, dependencies },
    },
    exports: [],
  };
}

/** Records the order in which plugins are described, and fails for the plugins in `broken`. */
export class InstrumentRunner extends ScriptedRunner {
  described: string[] = [];
  broken = new Set<string>();
  /** The instrument of a plugin, where it is not `<plugin>_tool`. */
  names = new Map<string, string>();
  override describe = async ({ package: pack }: DescribeRequest): Promise<Description> => {
    const id = pack.runtime.instrument!.plugin_id;
    this.described.push(id);
    if (this.broken.has(id)) throw Object.assign(new Error(`${id} is broken`), { code: "handshake_failed" });
    const permissions = {
      network: "none",
      filesystem: "none",
      gateway_api_scopes: [],
      secret_slots: [],
    } as const;
    return {
      exports: [
        {
          id: this.names.get(id) ?? `${id.replaceAll("-", "_")}_tool`,
          kind: "tool",
          description: "x",
          default_timeout_ms: 1_000,
          permissions: { ...permissions, gateway_api_scopes: [], secret_slots: [] },
          tool: {
            effect_class: "read_only",
            streaming: false,
            requires_approval: false,
            risk: "low",
            category: "Shell",
          },
        },
      ],
      schemas: {},
      warnings:
        id === "loud" ? ["The instrument loud_tool is of category Shell and lists no sideEffects."] : [],
      info: {},
    };
  };
}

export async function createInstrumentKernel() {
  const runner = new InstrumentRunner();
  const fixture = await createTestKernel({ runner });
  const bind = (id: string, dependencies?: string[]) =>
    fixture.bind(instrumentManifest(id, dependencies), { export_id: "*" });
  const listStates = async () => {
    const plugins = await fixture.kernel.instruments.list(admin);
    return Object.fromEntries(
      plugins.map(({ error, plugin_id, state }) => [plugin_id, error?.message ?? state]),
    );
  };
  const listOffered = async () => (await fixture.kernel.catalog.list(user)).map(({ name }) => name);
  return { runner, fixture, bind, listStates, listOffered };
}
