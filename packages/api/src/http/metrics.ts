/**
 * Metrics in the Prometheus text format. Each route gets its counters at registration, so that counting a request does
 * not have to look up its route (benchmark http.invoke.cpu).
 */
import { monitorEventLoopDelay } from "node:perf_hooks";
import type { KernelHealth } from "@backplane/ports";

const BUCKETS_S = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];

export interface RouteMeter {
  count(status: number, elapsed_ms: number): void;
}

export interface Metrics {
  route(operation_id: string): RouteMeter;
  countStream(change: 1 | -1): void;
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
    countStream(change) {
      open_streams += change;
    },
    render(health) {
      const lines: string[] = [];
      renderRoutes(lines, routes);
      describeMetric(
        lines,
        "backplane_invocations_total",
        "counter",
        "Calls of all callers that ended on this gateway, by kind, execution class (or host) and final status.",
      );
      for (const { kind, class: execution_class, status, count } of health.ended)
        lines.push(
          `backplane_invocations_total{kind="${kind}",class="${execution_class}",status="${status}"} ${count}`,
        );
      gauge(lines, "backplane_invocations_running", "Running invocations.", health.invocations.running);
      gauge(
        lines,
        "backplane_invocations_waiting_approval",
        "Invocations awaiting approval.",
        health.invocations.waiting_approval,
      );
      gauge(lines, "backplane_invocations_queued", "Queued invocations.", health.invocations.queued);
      gauge(lines, "backplane_plugin_processes", "Plugin processes.", health.runner.processes);
      gauge(
        lines,
        "backplane_plugin_processes_prewarmed",
        "Prewarmed plugin processes, each waiting for its single call.",
        health.runner.prewarmed,
      );
      gauge(
        lines,
        "backplane_plugins_held_back",
        "Plugins that are not started again yet because they crashed at launch.",
        health.runner.held_back.length,
      );
      gauge(lines, "backplane_event_streams", "Open SSE streams.", open_streams);
      gauge(lines, "backplane_store_up", "1 while the store responds.", health.store.ok ? 1 : 0);
      gauge(
        lines,
        "backplane_event_loop_lag_seconds",
        "99th percentile of the event loop delay since the last scrape.",
        Number.isFinite(lag.percentile(99)) ? lag.percentile(99) / 1e9 : 0,
      );
      lag.reset();
      gauge(
        lines,
        "process_resident_memory_bytes",
        "Resident memory of the gateway.",
        process.memoryUsage.rss(),
      );
      gauge(lines, "process_uptime_seconds", "Seconds since the gateway started.", process.uptime());
      return `${lines.join("\n")}\n`;
    },
    close: () => void lag.disable(),
  };
}

function renderRoutes(lines: string[], routes: Map<string, RouteCounts>): void {
  describeMetric(lines, "backplane_http_requests_total", "counter", "Requests by route and status.");
  for (const [route, counts] of routes) {
    for (const [status, count] of counts.by_status)
      lines.push(`backplane_http_requests_total{route="${route}",status="${status}"} ${count}`);
  }
  const name = "backplane_http_request_duration_seconds";
  describeMetric(
    lines,
    name,
    "histogram",
    "Time from the headers of the request to the end of the response.",
  );
  for (const [route, counts] of routes) {
    if (counts.total === 0) continue;
    let cumulative = 0;
    for (let i = 0; i < BUCKETS_S.length; i++) {
      cumulative += counts.buckets[i]!;
      lines.push(`${name}_bucket{route="${route}",le="${BUCKETS_S[i]}"} ${cumulative}`);
    }
    lines.push(`${name}_bucket{route="${route}",le="+Inf"} ${counts.total}`);
    lines.push(`${name}_sum{route="${route}"} ${counts.sum_s}`);
    lines.push(`${name}_count{route="${route}"} ${counts.total}`);
  }
}

function gauge(lines: string[], name: string, help: string, value: number): void {
  describeMetric(lines, name, "gauge", help);
  lines.push(`${name} ${value}`);
}

function describeMetric(lines: string[], name: string, type: string, help: string): void {
  lines.push(`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`);
}
