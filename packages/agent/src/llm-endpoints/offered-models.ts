/**
 * Lists the models that the instances of an org offer at the model endpoints, and resolves the name that a client
 * sends.
 */
import {
  BackplaneError,
  isObject,
  type Json,
  type KernelPlugin,
  type LlmKeyLimits,
} from "@backplane/contract";
import type { LlmModel } from "@backplane/ports";
import { compileToolPatterns } from "@backplane/registry";
import type { ActiveModels } from "../models/active-models.ts";

export interface OfferedModel extends LlmModel {
  plugin: Pick<KernelPlugin, "protocols">;
}

export interface OfferedModelsDeps {
  active_models: Pick<ActiveModels, "list">;
  /** The loaded plugin that serves an instance, or null. */
  findPlugin: (org_id: string, provider: string) => Promise<KernelPlugin | null>;
}

/** The models of the active instance come first. `allowed` holds the patterns of a key. */
export async function listOfferedModels(
  { active_models, findPlugin }: OfferedModelsDeps,
  org_id: string,
  allowed: LlmKeyLimits["models"],
): Promise<OfferedModel[]> {
  const matches = allowed === undefined ? () => true : compileToolPatterns(allowed);
  const offered: OfferedModel[] = [];
  for (const { id: provider, label, config } of await active_models.list(org_id)) {
    const plugin = await findPlugin(org_id, provider);
    if (plugin === null) continue;
    for (const model of listModels(config, plugin)) {
      const id = `${provider}/${model}`;
      if (matches(id)) offered.push({ id, provider, model, label, plugin });
    }
  }
  return offered;
}

/** A full name (`provider/model`) takes precedence over a model's own name, which can also contain a slash. */
export function resolveModel(offered: readonly OfferedModel[], name: string): OfferedModel {
  const match = offered.find(({ id }) => id === name) ?? offered.find(({ model }) => model === name);
  if (match === undefined)
    throw new BackplaneError("llm.model_not_found", `The model ${JSON.stringify(name)} is not available.`, {
      details: { model: name },
    });
  return match;
}

function listModels(config: Readonly<Record<string, Json>>, { configSchema }: KernelPlugin): Set<string> {
  const properties = isObject(configSchema?.properties) ? configSchema.properties : {};
  const preset = isObject(properties.model) ? properties.model.default : undefined;
  const { model = preset, models } = config;
  const names = [model, ...(Array.isArray(models) ? models : [])];
  return new Set(names.filter((name): name is string => typeof name === "string" && name !== ""));
}
