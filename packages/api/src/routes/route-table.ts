import type { Route } from "../http/route.ts";
import { agentPluginRoutes } from "./agent-plugins.ts";
import { allowRuleRoutes } from "./allow-rules.ts";
import { approvalRoutes } from "./approvals.ts";
import { auditRoutes } from "./audit.ts";
import { bindingRoutes } from "./bindings.ts";
import { catalogRoutes } from "./catalog.ts";
import { chainRoutes } from "./chains.ts";
import { compactionRoutes } from "./compactions.ts";
import { consoleLoginRoutes } from "./console-login.ts";
import { definitionRoutes } from "./definitions.ts";
import { deliveryRoutes } from "./deliveries.ts";
import { eventRoutes } from "./events.ts";
import { exampleRoutes } from "./examples.ts";
import { exportRoutes } from "./exports.ts";
import { installationRoutes } from "./installations.ts";
import { instrumentRoutes } from "./instruments.ts";
import { invocationRoutes } from "./invocations.ts";
import { keyRoutes } from "./keys.ts";
import { llmRoutes } from "./llm.ts";
import { marketplaceRoutes } from "./marketplace.ts";
import { packageRoutes } from "./packages.ts";
import { pageRoutes } from "./pages.ts";
import { pinRoutes } from "./pins.ts";
import { pluginRoutes } from "./plugins.ts";
import { policyRoutes } from "./policy.ts";
import type { RouteDeps } from "./route-deps.ts";
import { runRoutes } from "./runs.ts";
import { secretRoutes } from "./secrets.ts";
import { sessionRoutes } from "./sessions.ts";
import { signInRoutes } from "./sign-ins.ts";
import { systemRoutes } from "./system.ts";
import { trustedKeyRoutes } from "./trusted-keys.ts";
import { workspaceRoutes } from "./workspaces.ts";

/** Every route except those of adapters, including the route of the OpenAPI document made from this table. */
export function buildRoutes(deps: RouteDeps, mcp: readonly Route[]): Route[] {
  const table: Route[] = [
    ...installationRoutes(deps),
    ...packageRoutes(deps),
    ...marketplaceRoutes(deps),
    ...agentPluginRoutes(deps),
    ...exampleRoutes(deps),
    ...bindingRoutes(deps),
    ...definitionRoutes(deps),
    ...signInRoutes(deps),
    ...exportRoutes(deps),
    ...invocationRoutes(deps),
    ...deliveryRoutes(deps),
    ...approvalRoutes(deps),
    ...allowRuleRoutes(deps),
    ...policyRoutes(deps),
    ...catalogRoutes(deps),
    ...secretRoutes(deps),
    ...instrumentRoutes(deps),
    ...keyRoutes(deps),
    ...trustedKeyRoutes(deps),
    ...auditRoutes(deps),
    ...sessionRoutes(deps),
    ...pinRoutes(deps),
    ...chainRoutes(deps),
    ...runRoutes(deps),
    ...llmRoutes(deps),
    ...compactionRoutes(deps),
    ...pluginRoutes(deps),
    ...workspaceRoutes(deps),
    ...eventRoutes(deps),
    ...mcp,
    ...pageRoutes(deps),
    ...consoleLoginRoutes(deps),
  ];
  table.push(...systemRoutes(deps, table));
  return table;
}
