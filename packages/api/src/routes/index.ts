import type { Clock, Kernel } from "@backplane/kernel";
import type { SignIn } from "../auth/sign-in.ts";
import type { EventStreams } from "../event-streams.ts";
import type { Metrics } from "../metrics.ts";
import type { Route } from "../route.ts";
import { agentPluginRoutes } from "./agent-plugins.ts";
import { approvalRoutes } from "./approvals.ts";
import { auditRoutes } from "./audit.ts";
import { bindingRoutes } from "./bindings.ts";
import { chainRoutes } from "./chains.ts";
import { compactionRoutes } from "./compactions.ts";
import { definitionRoutes } from "./definitions.ts";
import { eventRoutes } from "./events.ts";
import { exportRoutes } from "./exports.ts";
import { invocationRoutes } from "./invocations.ts";
import { instrumentRoutes } from "./instruments.ts";
import { keyRoutes } from "./keys.ts";
import { packageRoutes } from "./packages.ts";
import { pageRoutes } from "./pages.ts";
import { pluginRoutes } from "./plugins.ts";
import { policyRoutes } from "./policy.ts";
import { runRoutes } from "./runs.ts";
import { secretRoutes } from "./secrets.ts";
import { sessionRoutes } from "./sessions.ts";
import { signInRoutes } from "./sign-ins.ts";
import { systemRoutes } from "./system.ts";
import { workspaceRoutes } from "./workspaces.ts";

export interface RouteDeps {
  kernel: Kernel;
  clock: Clock;
  version: string;
  sign_in: SignIn;
  streams: EventStreams;
  /** `/mcp`. */
  mcp: readonly Route[];
  metrics: Metrics;
  secure: boolean;
  upload_bytes: number;
  stopping(): boolean;
}

/** The whole table, its own description included: it is what the OpenAPI document is made from. */
export function buildRoutes(deps: RouteDeps): Route[] {
  const table: Route[] = [
    ...packageRoutes(deps),
    ...agentPluginRoutes(deps),
    ...bindingRoutes(deps),
    ...definitionRoutes(deps),
    ...signInRoutes(deps),
    ...exportRoutes(deps),
    ...invocationRoutes(deps),
    ...approvalRoutes(deps),
    ...policyRoutes(deps),
    ...secretRoutes(deps),
    ...instrumentRoutes(deps),
    ...keyRoutes(deps),
    ...auditRoutes(deps),
    ...sessionRoutes(deps),
    ...chainRoutes(deps),
    ...runRoutes(deps),
    ...compactionRoutes(deps),
    ...pluginRoutes(deps),
    ...workspaceRoutes(deps),
    ...eventRoutes(deps),
    ...deps.mcp,
    ...pageRoutes(deps),
  ];
  table.push(...systemRoutes(deps, table));
  return table;
}
