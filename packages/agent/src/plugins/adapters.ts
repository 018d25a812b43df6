/** Adapters' HTTP routes: mounted while their plugin is loaded, called with values, answered with checked values. */

import { BackplaneError, codeOf } from "@backplane/contract";
import type { AdapterMount, Adapters } from "@backplane/ports";
import type { MintedCallers } from "./callers.ts";
import { checkAnswer } from "./check-answer.ts";
import { checkBody } from "./check-body.ts";
import type { Instance } from "./instance.ts";
import { findMount, type Mounted, mountRoute } from "./mounts.ts";
import type { PluginSystemDeps, PluginTimeouts } from "./plugins-port.ts";
import { describeThrown, within } from "./within.ts";

interface AdapterParts {
  deps: Pick<PluginSystemDeps, "clock" | "log" | "schemas">;
  timeouts: PluginTimeouts;
  callers: MintedCallers;
  enter(org_id: string): void;
}

export class MountedAdapters implements Adapters {
  readonly #parts: AdapterParts;
  readonly #instances = new Map<string, { instance: Instance; mounts: readonly Mounted[] }>();
  #all: readonly Mounted[] = [];
  #listed: readonly AdapterMount[] = [];

  constructor(parts: AdapterParts) {
    this.#parts = parts;
  }

  list(): readonly AdapterMount[] {
    return this.#listed;
  }

  find(method: string, path: string): ReturnType<Adapters["find"]> {
    return findMount(this.#all, method, path);
  }

  /** What `mount` would do; throws `plugin.invalid` when a route is not usable or taken. */
  check(instance: Instance, api: boolean): readonly Mounted[] {
    const { plugin, name } = instance;
    const mounts = (plugin.routes ?? []).map((route) => mountRoute(name, route, api));
    const others = this.#all.filter(({ mount }) => mount.plugin !== name);
    const taken = new Map(others.map(({ shape, mount }) => [shape, mount.plugin]));
    for (const { shape } of mounts) {
      const owner = taken.get(shape);
      if (owner !== undefined)
        throw new BackplaneError("plugin.invalid", `the route ${shape} is taken by ${owner}`);
      taken.set(shape, name);
    }
    return mounts;
  }

  mount(instance: Instance, api: boolean): void {
    this.#instances.set(instance.name, { instance, mounts: this.check(instance, api) });
    this.#layOut();
  }

  unmount(instance: Instance): void {
    if (this.#instances.get(instance.name)?.instance !== instance) return;
    this.#instances.delete(instance.name);
    this.#layOut();
  }

  async handle(
    caller: Parameters<Adapters["handle"]>[0],
    mount: AdapterMount,
    request: Parameters<Adapters["handle"]>[2],
  ): ReturnType<Adapters["handle"]> {
    const { callers, deps, timeouts } = this.#parts;
    const instance = this.#instances.get(mount.plugin)?.instance;
    if (instance === undefined) throw new BackplaneError("route.not_found", `${mount.plugin} is not loaded`);
    const route = `${mount.method} ${mount.path}`;
    await checkBody(deps.schemas, mount, request.body);
    this.#parts.enter(caller.scope.org_id);
    const minted = callers.mint({ plugin: mount.plugin, caller, call: null });
    const ask = () =>
      instance.plugin.onRequest!({ ...request, route, as: minted.as }, instance.context(caller.scope));
    try {
      const what = `${mount.plugin}'s answer to ${route}`;
      const answer = await instance.track(() => within(deps.clock, timeouts.request_ms, what, ask));
      return checkAnswer(mount.plugin, answer);
    } catch (error) {
      // A refusal of a kernel service that the adapter let through is the answer itself.
      if (codeOf(error) !== undefined) throw error;
      deps.log.warn({ plugin: mount.plugin, route, trace: describeThrown(error).trace }, "an adapter failed");
      throw new BackplaneError("crashed", `${mount.plugin} failed to answer ${route}; its log says why`);
    } finally {
      minted.end();
    }
  }

  #layOut(): void {
    const all = [...this.#instances.values()].flatMap(({ mounts }) => mounts);
    this.#all = all.toSorted((a, b) => b.literal - a.literal);
    this.#listed = all.map(({ mount }) => mount);
  }
}
