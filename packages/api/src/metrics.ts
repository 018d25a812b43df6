/** Counters in Prometheus text. One record per route, made at registration: counting allocates nothing. */
import { monitorEventLoopDelay } from "node:perf_hooks";
import type { KernelHealth } from "@backplane/kernel";

const BUCKETS_S = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];

/** What one route counts. */
export interface RouteMeter {
  count(status: number, elapsed_ms: number): void;
}

export interface Metrics {
  route(operation_id: string): RouteMeter;
  /** A call that came in over HTTP has ended. */
  invocationEnded(status: string): void;
  streams(change: 1 | -1): void;
  render(health: KernelHealth): string;
  close(): void;
}

interface RouteCounts {
  by_status: Map<number, number>;
  buckets: number[];
  sum_s: number;
  total: number;
}

export function createMetrics(): Metrics {
  const routes = new Map<string, RouteCounts>();
  const ended = new Map<string, number>();
  const lag = monitorEventLoopDelay({ resolution: 20 });
  lag.enable();
  let open_streams = 0;

  return {
    route(operation_id) {
      const counts: RouteCounts = {
        by_status: new Map(),
        buckets: BUCKETS_S.map(() => 0),
        sum_s: 0,
        total: 0,
      };
      routes.set(operation_id, counts);
      return {
        count(status, elapsed_ms) {
          counts.by_status.set(status, (counts.by_status.get(status) ?? 0) + 1);
          const seconds = elapsed_ms / 1000;
          counts.sum_s += seconds;
          counts.total++;
          for (let i = 0; i < BUCKETS_S.length; i++) {
            if (seconds <= BUCKETS_S[i]!) {
              counts.buckets[i]!++;
              return;
            }
          }
        },
      };
    },
    invocationEnded: (status) => void ended.set(status, (ended.get(status) ?? 0) + 1),
    streams(change) {
      open_streams += change;
    },
    render(health) {
      const out: string[] = [];
      renderRoutes(out, routes);
      head(
        out,
        "backplane_invocations_total",
        "counter",
        "Invocations started over HTTP, by how they ended.",
      );
      for (const [status, count] of ended)
        out.push(`backplane_invocations_total{status="${status}"} ${count}`);
      gauge(out, "backplane_invocations_running", "Invocations that run now.", health.invocations.running);
      gauge(
        out,
        "backplane_invocations_waiting_approval",
        "Invocations that wait for a person.",
        health.invocations.waiting_approval,
      );
      gauge(
        out,
        "backplane_invocations_queued",
        "Invocations that wait for room.",
        health.invocations.queued,
      );
      gauge(out, "backplane_plugin_processes", "Plugin processes alive.", health.runner.processes);
      gauge(
        out,
        "backplane_plugin_processes_prewarmed",
        "Plugin processes that wait for their one call.",
        health.runner.prewarmed,
      );
      gauge(
        out,
        "backplane_plugins_held_back",
        "Plugins held back after dying at launch.",
        health.runner.held_back.length,
      );
      gauge(out, "backplane_event_streams", "Open SSE streams.", open_streams);
      gauge(out, "backplane_store_up", "1 while the store answers.", health.store.ok ? 1 : 0);
      gauge(
        out,
        "backplane_event_loop_lag_seconds",
        "99th percentile since the last reading.",
        Number.isFinite(lag.percentile(99)) ? lag.percentile(99) / 1e9 : 0,
      );
      lag.reset();
      gauge(
        out,
        "process_resident_memory_bytes",
        "Resident memory of the gateway.",
        process.memoryUsage.rss(),
      );
      gauge(out, "process_uptime_seconds", "Seconds since the gateway started.", process.uptime());
      return `${out.join("\n")}\n`;
    },
    close: () => void lag.disable(),
  };
}

function renderRoutes(out: string[], routes: Map<string, RouteCounts>): void {
  head(out, "backplane_http_requests_total", "counter", "Requests by route and status.");
  for (const [route, counts] of routes) {
    for (const [status, count] of counts.by_status)
      out.push(`backplane_http_requests_total{route="${route}",status="${status}"} ${count}`);
  }
  const name = "backplane_http_request_duration_seconds";
  head(out, name, "histogram", "Time from the request's headers to the end of the answer.");
  for (const [route, counts] of routes) {
    if (counts.total === 0) continue;
    let seen = 0;
    for (let i = 0; i < BUCKETS_S.length; i++) {
      seen += counts.buckets[i]!;
      out.push(`${name}_bucket{route="${route}",le="${BUCKETS_S[i]}"} ${seen}`);
    }
    out.push(`${name}_bucket{route="${route}",le="+Inf"} ${counts.total}`);
    out.push(`${name}_sum{route="${route}"} ${counts.sum_s}`);
    out.push(`${name}_count{route="${route}"} ${counts.total}`);
  }
}

function gauge(out: string[], name: string, help: string, value: number): void {
  head(out, name, "gauge", help);
  out.push(`${name} ${value}`);
}

function head(out: string[], name: string, type: string, help: string): void {
  out.push(`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`);
}
