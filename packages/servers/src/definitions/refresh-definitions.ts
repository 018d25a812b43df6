/**
 * Keeps definitions up to date while the gateway runs (mcp.client). A binding whose tools only the running process
 * can list is described at start, again after a pause if that failed (because of the server or of the store), and
 * soon after a server announces changed tools. The result for an MCP server is published on the bus as
 * `x.mcp.server.ready` or `x.mcp.server.error`. A server that keeps failing is reported once, until it is ready or
 * its binding changes.
 */

import { boundServerName, type Definitions, isSelfDescribing, MCP_BRIDGE_SESSION } from "@backplane/contract";
import type { BoundPackage, KernelDeps, Timer } from "@backplane/ports";
import type { DefinitionsService } from "@backplane/registry";
import type { KernelPort } from "@backplane/session";

export interface DefinitionsRefresher {
  /** Records the result of a description, and schedules a retry if it failed. */
  recordResult: (bound: BoundPackage, row: Definitions) => void;
  start(definitions: Pick<DefinitionsService, "describe">): Promise<void>;
  stop(): void;
}

/**
 * The pauses after consecutive failures. The last one repeats; it is longer than the time for which the runner blocks
 * a plugin that fails at launch.
 */
const RETRY_MS = [2_000, 10_000, 60_000, 330_000];
/** Combines notifications, because a server may send one per changed tool. */
const DEBOUNCE_MS = 200;
const CONCURRENCY = 4;
/**
 * After `times` notifications in a row, each within `within_ms` of the previous one, each further notification doubles
 * the delay, at most `doublings` times, so that a noisy server is not described constantly.
 */
const THROTTLE = { times: 10, within_ms: 60_000, doublings: 8 } as const;

/** Failures of the configuration, a secret or the package itself, which are published as `config_invalid`. */
const CONFIG_ERRORS: ReadonlySet<string> = new Set([
  "binding.invalid",
  "binding.not_active",
  "config.invalid",
  "input.invalid",
  "package.invalid",
  "package.platform",
  "request.invalid",
  "secret.not_found",
]);

interface WatchedBinding {
  failures: number;
  /** The generation of the binding at which a failure was published; null if none was since the server was ready. */
  reported_generation: number | null;
  /** Notifications in a row, each within the throttle window of the previous one. */
  notifications: number;
  notified_at: number;
  /** Whether the server has announced a change since the last scheduled description began. */
  has_announced: boolean;
  /** The next description: a retry, or the one that follows a notification. */
  timer: Timer | null;
}

export function createDefinitionsRefresher(deps: KernelDeps, port: KernelPort): DefinitionsRefresher {
  const { clock, log, runner, store } = deps;
  const watched_bindings = new Map<string, WatchedBinding>();
  const bindings = new Map<string, BoundPackage>();
  let service: Pick<DefinitionsService, "describe"> | null = null;
  let stopListening = () => {};

  function recordResult(bound: BoundPackage, row: Definitions): void {
    const { binding_id, scope, generation } = bound.binding;
    const known = bindings.get(binding_id);
    if (known === undefined || known.binding.generation <= generation) bindings.set(binding_id, bound);
    const watched = getWatched(binding_id);
    if (row.error !== null) scheduleRetry(binding_id, watched);
    else {
      // This result replaces a retry, but not the description of a change that the server announced meanwhile.
      const had_failed = watched.failures > 0;
      watched.failures = 0;
      if (had_failed && watched.has_announced) scheduleDescription(binding_id, watched, getDebounce(watched));
      else if (had_failed) stopTimer(watched);
    }
    const is_repeated = row.error !== null && watched.reported_generation === generation;
    watched.reported_generation = row.error === null ? null : generation;
    if (!is_repeated) publishResult(bound, row, watched.failures, scope);
  }

  function getWatched(binding_id: string): WatchedBinding {
    const existing = watched_bindings.get(binding_id);
    if (existing !== undefined) return existing;
    const watched: WatchedBinding = {
      failures: 0,
      reported_generation: null,
      notifications: 0,
      notified_at: 0,
      has_announced: false,
      timer: null,
    };
    watched_bindings.set(binding_id, watched);
    return watched;
  }

  function publishResult(
    bound: BoundPackage,
    row: Definitions,
    attempt: number,
    scope: BoundPackage["binding"]["scope"],
  ) {
    const { binding_id, package_id } = bound.binding;
    if (!bound.package.manifest.runtime.protocol.startsWith("mcp.")) return;
    const fields = { server: boundServerName(bound.binding), binding_id, package_id };
    const options = { session_id: MCP_BRIDGE_SESSION, scope };
    if (row.error === null) {
      const tools = row.exports.map(({ id, description = "", tool }) => ({
        name: id,
        mcp_name: tool.native_name ?? id,
        description,
      }));
      const quarantined = row.quarantined.length;
      port.tryPublish("x.mcp.server.ready", { ...fields, tools, quarantined }, options);
    } else {
      const { code, message } = row.error;
      const kind = CONFIG_ERRORS.has(code) ? "config_invalid" : "boot_failed";
      port.tryPublish("x.mcp.server.error", { ...fields, kind, code, message, attempt }, options);
    }
  }

  function scheduleDescription(binding_id: string, watched: WatchedBinding, ms: number): void {
    stopTimer(watched);
    if (service === null) return;
    watched.timer = clock.after(ms, () => {
      watched.timer = null;
      watched.has_announced = false;
      void describeAgain(binding_id);
    });
  }

  function scheduleRetry(binding_id: string, watched: WatchedBinding): void {
    const pause = RETRY_MS[Math.min(watched.failures, RETRY_MS.length - 1)]!;
    watched.failures++;
    scheduleDescription(binding_id, watched, pause);
  }

  /** Reads the binding again, because it may have changed or been removed. */
  async function describeAgain(binding_id: string): Promise<void> {
    const known = bindings.get(binding_id);
    if (known === undefined || service === null) return;
    try {
      const bound = await store.bindings.get(known.binding.scope, binding_id);
      if (bound === null) stopWatching(binding_id);
      else await describeBinding(bound);
    } catch (error) {
      log.warn({ err: error, binding_id }, "binding could not be described; retrying");
      scheduleRetry(binding_id, getWatched(binding_id));
    }
  }

  async function describeBinding(bound: BoundPackage): Promise<void> {
    const { binding_id, status } = bound.binding;
    if (service === null || (await service.describe(bound)) !== null) return;
    const is_describable = status === "active" && isSelfDescribing(bound.package.manifest.runtime.protocol);
    // The binding was removed meanwhile, or the store failed. The retry finds out which.
    if (is_describable) scheduleRetry(binding_id, getWatched(binding_id));
    else stopWatching(binding_id);
  }

  function stopTimer(watched: WatchedBinding): void {
    watched.timer?.stop();
    watched.timer = null;
  }

  function stopWatching(binding_id: string): void {
    watched_bindings.get(binding_id)?.timer?.stop();
    watched_bindings.delete(binding_id);
    bindings.delete(binding_id);
  }

  async function start(definitions: Pick<DefinitionsService, "describe">): Promise<void> {
    service = definitions;
    stopListening =
      runner.onNotification?.(({ binding_id, method }) => {
        const watched = watched_bindings.get(binding_id);
        if (watched === undefined || method !== "notifications/tools/list_changed") return;
        watched.has_announced = true;
        // The scheduled description covers this notification too.
        if (watched.timer !== null) return;
        const now = clock.monotonic();
        watched.notifications =
          now - watched.notified_at > THROTTLE.within_ms ? 1 : watched.notifications + 1;
        watched.notified_at = now;
        scheduleDescription(binding_id, watched, getDebounce(watched));
      }) ?? (() => {});
    // Instrument plugins may depend on each other, so instruments/ describes them one by one, dependencies first.
    const undescribed = (await store.bindings.listWholePackages()).filter(
      ({ package: { manifest } }) =>
        isSelfDescribing(manifest.runtime.protocol) && manifest.runtime.instrument === undefined,
    );
    const describeRemaining = async () => {
      for (
        let bound = undescribed.pop();
        bound !== undefined && service !== null;
        bound = undescribed.pop()
      ) {
        bindings.set(bound.binding.binding_id, bound);
        await describeBinding(bound);
      }
    };
    // The start does not wait: the definitions from before the restart are offered meanwhile.
    for (let started = 0; started < CONCURRENCY; started++) {
      void describeRemaining().catch((error: unknown) =>
        log.warn({ err: error }, "bindings could not be described"),
      );
    }
  }

  return {
    recordResult,
    start,
    stop() {
      service = null;
      stopListening();
      for (const id of Array.from(watched_bindings.keys())) stopWatching(id);
    },
  };
}

function getDebounce({ notifications }: WatchedBinding): number {
  const doublings = Math.min(Math.max(0, notifications - THROTTLE.times), THROTTLE.doublings);
  return DEBOUNCE_MS * 2 ** doublings;
}
