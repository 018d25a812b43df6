/**
 * The facade for provider instances: `providers.<id>.*` and the key `provider`. Each change is one atomic write.
 * Changes of one org are serialized, because the check of a change must stay valid until its write is done.
 */

import { randomBytes } from "node:crypto";
import {
  BackplaneError,
  type IdSource,
  isConfigKey,
  isSecretConfigKey,
  type Json,
  type JsonObject,
  type ProviderInstance,
  type ProviderView,
} from "@backplane/contract";
import {
  type AgentProviders,
  buildAudit,
  type Caller,
  type Clock,
  isWholeOrg,
  type Logger,
  requireOperator,
  requireWholeOrg,
  type Schemas,
  type Store,
} from "@backplane/ports";
import {
  ACTIVE_INSTANCE_KEY,
  ALLOW_PRIVATE_FIELD,
  auditDroppedCredentials,
  isInstanceId,
  type LiveConfig,
  requireConfigSet,
} from "@backplane/registry";
import { checkConfig } from "./check-config.ts";
import { withAllowedAddress } from "./private-address.ts";
import { maskInstance, type ProviderState, readProviders } from "./view.ts";

const MAX_ID_LENGTH = 64;
const SUFFIX_LENGTH = 8;
const META_FIELDS = ["plugin", "label"];

export interface ProvidersDeps {
  config: LiveConfig;
  store: Pick<Store, "audit">;
  clock: Clock;
  ids: IdSource;
  log: Logger;
  schemas?: Schemas;
  probe: AgentProviders["test"];
  /** Ensures that the org's first instances exist. */
  prepare(org_id: string): Promise<void>;
  /** Throws `plugin.not_found`. */
  getPlugin(name: string): { status: string; entry: { category: string }; config_schema: JsonObject | null };
}

export function createProviders(deps: ProvidersDeps): AgentProviders {
  const { config, store } = deps;
  const pending_changes = new Map<string, Promise<unknown>>();

  async function read(org_id: string): Promise<ProviderState> {
    await deps.prepare(org_id);
    return await readProviders(deps, org_id);
  }

  /** Runs the changes of an org one after another. Each change gets the state that the previous one left. */
  async function change<T>(
    caller: Caller,
    work: (state: ProviderState, org_id: string) => Promise<T>,
  ): Promise<T> {
    requireWholeOrg(caller, "change the providers");
    const { org_id } = caller.scope;
    const next = (pending_changes.get(org_id) ?? Promise.resolve()).then(async () =>
      work(await read(org_id), org_id),
    );
    const settled = next.catch(() => {});
    pending_changes.set(org_id, settled);
    try {
      return await next;
    } finally {
      if (pending_changes.get(org_id) === settled) pending_changes.delete(org_id);
    }
  }

  function toView(instance: ProviderInstance, active: string | null): ProviderView {
    const { id, plugin, label, config: fields } = instance;
    // An instance whose plugin was removed is still listed, so that the instance can be removed too.
    const config_schema = findSchema(plugin) ?? null;
    return { id, plugin, label, active: id === active, config: fields, config_schema };
  }

  async function readView(org_id: string, id: string): Promise<ProviderView> {
    const { active, instances } = await readProviders(deps, org_id);
    return toView(maskInstance(findInstance(instances, id)), active);
  }

  function checkPlugin(name: string): void {
    const { entry, status } = deps.getPlugin(name);
    if (entry.category !== "llm-provider") {
      throw invalid(`${name} is a plugin of category ${entry.category}, not llm-provider.`);
    }
    if (status !== "loaded") throw invalid(`The plugin ${name} must be loaded, but its status is ${status}.`);
  }

  function isLoaded(name: string): boolean {
    try {
      return deps.getPlugin(name).status === "loaded";
    } catch {
      return false;
    }
  }

  /** Returns undefined if the plugin is not installed. */
  function findSchema(name: string): JsonObject | null | undefined {
    try {
      return deps.getPlugin(name).config_schema;
    } catch {
      return undefined;
    }
  }

  /** The fields of an instance whose plugin is not installed are not checked, because their schema is unknown. */
  async function checkFields(name: string, fields: JsonObject, changed: readonly string[]): Promise<void> {
    const config_schema = findSchema(name);
    if (config_schema === undefined) return;
    await checkConfig(deps.schemas, { name, config_schema }, fields, changed);
  }

  return {
    async list(caller, { show }) {
      const { org_id } = caller.scope;
      if (show && (!caller.admin || !isWholeOrg(caller))) {
        throw new BackplaneError(
          "auth.scope",
          "Only an admin credential may read the values of secret fields.",
          {
            details: { needs: "admin" },
          },
        );
      }
      const { active, instances } = await read(org_id);
      if (show)
        await store.audit.append(buildAudit(deps, caller, "provider.show", `${instances.length} instances`));
      return instances.map((instance) => toView(show ? instance : maskInstance(instance), active));
    },
    create: async (caller, body) =>
      await change(caller, async ({ instances }, org_id) => {
        const { plugin, label, config: requested = {} } = body;
        checkPlugin(plugin);
        const fields = withoutNulls(
          withAllowedAddress({}, withoutNulls(requested), findSchema(plugin) ?? null),
        );
        const id = body.id ?? generateId(plugin);
        if (!isInstanceId(id))
          throw new BackplaneError(
            "provider.invalid",
            `${JSON.stringify(id).slice(0, 80)} is not a valid instance id.`,
            { fix: "Use 3 to 64 lower-case letters, digits and hyphens; the id active is reserved." },
          );
        if (instances.some((instance) => instance.id === id)) {
          throw new BackplaneError("provider.conflict", `The instance ${id} already exists.`, {
            fix: "Change that instance, or choose another id.",
          });
        }
        const keys = toConfigKeys(id, fields);
        await checkFields(plugin, fields, Object.keys(fields));
        const set: Record<string, Json> = { ...keys, [`providers.${id}.plugin`]: plugin };
        set[`providers.${id}.label`] = label ?? id;
        requireConfigSet(caller, Object.keys(set));
        const audit = buildAudit(deps, caller, "provider.create", id, {
          plugin,
          ...allowedAddressOf(fields),
        });
        // Fields that remain from a deleted instance with this id must not become part of the new one.
        await config.write(org_id, { set, unset: [`providers.${id}.*`] }, { audit });
        return await readView(org_id, id);
      }),
    patch: async (caller, id, body) =>
      await change(caller, async ({ instances }, org_id) => {
        const instance = findInstance(instances, id);
        const { label, config: requested = {} } = body;
        const unmasked = Object.entries(requested).filter(([field, value]) => !isMasked(field, value));
        const schema = findSchema(instance.plugin) ?? null;
        const fields = withAllowedAddress(instance.config, Object.fromEntries(unmasked), schema);
        const changes = Object.entries(fields);
        const set = toConfigKeys(id, Object.fromEntries(changes.filter(([, value]) => value !== null)));
        const unset = Object.keys(
          toConfigKeys(id, Object.fromEntries(changes.filter(([, value]) => value === null))),
        );
        const new_config = withoutNulls({ ...instance.config, ...Object.fromEntries(changes) });
        await checkFields(
          instance.plugin,
          new_config,
          changes.map(([field]) => field),
        );
        if (label !== undefined) set[`providers.${id}.label`] = label;
        if (Object.keys(set).length + unset.length > 0) {
          const changed = [...Object.keys(set), ...unset].map((key) => key.slice(`providers.${id}.`.length));
          requireConfigSet(caller, Object.keys(set));
          const audit = buildAudit(deps, caller, "provider.patch", id, {
            fields: changed,
            ...allowedAddressOf(fields),
          });
          const removed = await config.write(org_id, { set, unset }, { audit });
          const dropped = removed.filter((key) => !unset.includes(key));
          await auditDroppedCredentials(deps, caller, dropped);
        }
        return await readView(org_id, id);
      }),
    remove: async (caller, id) =>
      await change(caller, async ({ active, instances }, org_id) => {
        const { plugin } = findInstance(instances, id);
        if (active === id) {
          throw new BackplaneError("provider.conflict", `${id} is the active instance.`, {
            fix: "Make another instance the active one first: backplane provider use <id>",
          });
        }
        // A plugin that is not loaded needs no instance, and no other instance of it can be created.
        const is_last = instances.filter((instance) => instance.plugin === plugin).length === 1;
        if (is_last && isLoaded(plugin)) {
          throw new BackplaneError("provider.conflict", `${id} is the last instance of ${plugin}.`, {
            fix: `Create another instance of ${plugin} first, or disable the plugin.`,
          });
        }
        const audit = buildAudit(deps, caller, "provider.remove", id, { plugin });
        await config.write(org_id, { unset: [`providers.${id}.*`] }, { audit });
      }),
    setActive: async (caller, id) =>
      await change(caller, async ({ instances }, org_id) => {
        checkPlugin(findInstance(instances, id).plugin);
        const audit = buildAudit(deps, caller, "provider.activate", id);
        await config.write(org_id, { set: { [ACTIVE_INSTANCE_KEY]: id } }, { audit });
      }),
    async test(caller, id) {
      requireOperator(caller, "test a provider");
      findInstance((await read(caller.scope.org_id)).instances, id);
      return await deps.probe(caller, id);
    },
  };
}

function findInstance(instances: readonly ProviderInstance[], id: string): ProviderInstance {
  const existing = instances.find((instance) => instance.id === id);
  if (existing === undefined)
    throw new BackplaneError("provider.not_found", `There is no provider instance ${id}.`);
  return existing;
}

function toConfigKeys(id: string, fields: JsonObject): Record<string, Json> {
  const keys: Record<string, Json> = {};
  for (const [field, value] of Object.entries(fields)) {
    const key = `providers.${id}.${field}`;
    if (META_FIELDS.includes(field) || !isConfigKey(key)) {
      throw invalid(`${JSON.stringify(field).slice(0, 80)} is not a valid field name of an instance.`);
    }
    keys[key] = value;
  }
  return keys;
}

/** Returns the audit detail about a private address that the instance may reach. */
function allowedAddressOf(fields: JsonObject): JsonObject {
  const address = fields[ALLOW_PRIVATE_FIELD];
  return typeof address === "string" ? { [ALLOW_PRIVATE_FIELD]: address } : {};
}

function withoutNulls(fields: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null));
}

/** Returns whether the value is the mask that a reader received instead of the secret. */
function isMasked(field: string, value: Json): boolean {
  return isSecretConfigKey(field) && typeof value === "string" && value.startsWith("****");
}

function generateId(plugin: string): string {
  const stem = plugin.slice(0, MAX_ID_LENGTH - SUFFIX_LENGTH - 1).replace(/-+$/, "");
  return `${stem}-${randomBytes(SUFFIX_LENGTH / 2).toString("hex")}`;
}

function invalid(message: string): BackplaneError {
  return new BackplaneError("provider.invalid", message);
}
