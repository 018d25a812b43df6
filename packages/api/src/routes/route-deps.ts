import type { Clock, Kernel, StoreSummary } from "@backplane/ports";
import type { ConsoleLogin } from "../auth/console-login.ts";
import type { Metrics } from "../http/metrics.ts";
import type { EndpointCalls } from "../llm/answer-call.ts";
import type { EventStreams } from "../sse/event-streams.ts";

export interface RouteDeps {
  kernel: Kernel;
  clock: Clock;
  version: string;
  storeSummary(): Promise<StoreSummary>;
  /** Null if the examples are not installed. */
  examples_folder: string | null;
  console_login: ConsoleLogin;
  streams: EventStreams;
  endpoint_calls: EndpointCalls;
  metrics: Metrics;
  /** Whether cookies are marked Secure. */
  secure: boolean;
  upload_bytes: number;
  stopping(): boolean;
}
