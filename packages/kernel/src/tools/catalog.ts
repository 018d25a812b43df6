/**
 * Every tool that a turn may offer to its model: those of kernel plugins first, then bound exports of the scope. A
 * turn takes one snapshot and keeps it, so that nothing shifts under it. Bindings are read again after a second at
 * most: another node may have changed them.
 */
import type { DiscoveredExport, EffectClass, Json, JsonObject, LlmTool } from "@backplane/contract";
import { share } from "../bus/snapshot.ts";
import type { Caller, Clock, Scope } from "../ports/index.ts";
import { kernelBindingId } from "./bound-tools.ts";
import type { ToolTable } from "../plugins/plugins-port.ts";

export interface OfferedTool extends LlmTool {
  /** As every model call shows it. */
  shown: LlmTool;
  binding_id: string | null;
  export_id: string;
  legacy: boolean;
  /** What clients outside of the loop are told beside that. */
  about: ToolAbout;
}

interface ToolAbout {
  title: string | null;
  output_schema: JsonObject | null;
  effect_class: EffectClass;
  requires_approval: boolean;
}

export interface ToolCatalog {
  snapshot(caller: Caller): Promise<ReadonlyMap<string, OfferedTool>>;
  /** After a change of bindings on this node. */
  forget(): void;
}

export interface CatalogDeps {
  tools: ToolTable;
  clock: Pick<Clock, "monotonic">;
  discover: (caller: Caller) => Promise<DiscoveredExport[]>;
}

const FRESH_MS = 1_000;
const KEPT = 256;
const ANYTHING: JsonObject = { type: "object", properties: {} };

export function createToolCatalog({ tools, clock, discover }: CatalogDeps): ToolCatalog {
  const known = new Map<string, { at: number; tools: Promise<ReadonlyMap<string, OfferedTool>> }>();
  const forget = () => known.clear();
  tools.onChanged(forget);

  async function read(caller: Caller): Promise<ReadonlyMap<string, OfferedTool>> {
    const offered = new Map<string, OfferedTool>();
    for (const { spec, legacy } of tools.list()) {
      const { name, description, parameters } = spec;
      const binding_id = kernelBindingId(name);
      const shown = share({ name, description, parameters });
      const about = {
        title: null,
        output_schema: null,
        effect_class: spec.effect_class ?? "unknown",
        requires_approval: spec.requires_approval ?? false,
      };
      offered.set(name, { ...shown, shown, binding_id, export_id: name, legacy, about });
    }
    for (const found of await discover(caller)) {
      const { export_id, description, display_name, input_schema } = found;
      // Rollout decides the binding at the call; a kernel tool of the same name stays in front.
      if (offered.has(export_id)) continue;
      const shown = share({
        name: export_id,
        description: description === "" ? display_name : description,
        parameters: objectSchema(input_schema),
      });
      offered.set(export_id, {
        ...shown,
        shown,
        binding_id: null,
        export_id,
        legacy: false,
        about: aboutExport(found),
      });
    }
    return offered;
  }

  return {
    forget,
    snapshot(caller) {
      const key = keyOf(caller.scope, caller);
      if (key === null) return read(caller);
      const now = clock.monotonic();
      const there = known.get(key);
      if (there !== undefined && now - there.at < FRESH_MS) return there.tools;
      const reading = read(caller);
      known.delete(key);
      known.set(key, { at: now, tools: reading });
      if (known.size > KEPT) known.delete(known.keys().next().value as string);
      reading.catch(() => known.delete(key));
      return reading;
    },
  };
}

/** Null: a plugin's own token sees what its grant names, which is not worth keeping. */
function keyOf({ org_id, project_id }: Scope, { role, delegation }: Caller): string | null {
  return delegation === undefined ? `${org_id}\n${project_id}\n${role === "guest"}` : null;
}

function aboutExport({ export: item, display_name, output_schema }: DiscoveredExport): ToolAbout {
  const tool = item.kind === "tool" ? item.tool : null;
  return {
    title: display_name === item.id ? null : display_name,
    output_schema: isObject(output_schema) ? output_schema : null,
    effect_class: tool?.effect_class ?? "unknown",
    requires_approval: tool?.requires_approval ?? false,
  };
}

/** Vendors want an object; a tool without a schema takes any. */
function objectSchema(schema: Json | null): JsonObject {
  return isObject(schema) ? schema : ANYTHING;
}

function isObject(value: Json | null): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
