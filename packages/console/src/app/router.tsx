/** The routes. Each page is a separate chunk, loaded when it is opened or when its link is hovered or focused. */
import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  type RouteComponent,
} from "@tanstack/react-router";
import { parseSearch, stringifySearch } from "../api/search.ts";
import { ListSkeleton } from "../parts/lists/list-skeleton.tsx";
import { ErrorView } from "../parts/notices/error-view.tsx";
import { NotFoundPage } from "./not-found-page.tsx";
import { Shell } from "./shell.tsx";

const root = createRootRoute({ component: Shell, notFoundComponent: NotFoundPage });

/** `search` names the parameters that the page reads from the URL; all of them are optional strings. */
function page<const P extends string, const S extends string = never>(
  path: P,
  component: RouteComponent,
  search: readonly S[] = [],
) {
  return createRoute({
    getParentRoute: () => root,
    path,
    component,
    validateSearch: (parameters: Record<string, unknown>): { [name in S]?: string } => {
      const known = search.filter((name) => typeof parameters[name] === "string" && parameters[name] !== "");
      return Object.fromEntries(known.map((name) => [name, parameters[name]])) as { [name in S]?: string };
    },
  });
}

const routes = root.addChildren([
  page(
    "/",
    lazyRouteComponent(() => import("../pages/home/home-page.tsx"), "HomePage"),
  ),
  page(
    "/approvals",
    lazyRouteComponent(() => import("../pages/approvals/approvals-page.tsx"), "ApprovalsPage"),
    ["view", "id"],
  ),
  page(
    "/audit",
    lazyRouteComponent(() => import("../pages/audit/audit-page.tsx"), "AuditPage"),
    ["action", "id"],
  ),
  page(
    "/events",
    lazyRouteComponent(() => import("../pages/events/events-page.tsx"), "EventsPage"),
    ["type", "session", "q", "id"],
  ),
  page(
    "/health",
    lazyRouteComponent(() => import("../pages/health/health-page.tsx"), "HealthPage"),
  ),
  page(
    "/sessions",
    lazyRouteComponent(() => import("../pages/sessions/sessions-page.tsx"), "SessionsPage"),
    ["workspace", "q"],
  ),
  page(
    "/sessions/$id",
    lazyRouteComponent(() => import("../pages/sessions/session-page.tsx"), "SessionPage"),
    ["workspace", "new"],
  ),
  page(
    "/session-admin/$id",
    lazyRouteComponent(() => import("../pages/session-admin/session-admin-page.tsx"), "SessionAdminPage"),
    ["workspace"],
  ),
  page(
    "/invocations",
    lazyRouteComponent(() => import("../pages/invocations/invocations-page.tsx"), "InvocationsPage"),
    ["status", "export", "session", "binding"],
  ),
  page(
    "/invocations/$id",
    lazyRouteComponent(() => import("../pages/invocations/invocation-page.tsx"), "InvocationPage"),
  ),
  page(
    "/runs",
    lazyRouteComponent(() => import("../pages/runs/runs-page.tsx"), "RunsPage"),
    ["session", "workspace", "id"],
  ),
  page(
    "/model-calls",
    lazyRouteComponent(() => import("../pages/llm/model-calls-page.tsx"), "ModelCallsPage"),
    ["run", "invocation", "id"],
  ),
  page(
    "/deliveries",
    lazyRouteComponent(() => import("../pages/deliveries/deliveries-page.tsx"), "DeliveriesPage"),
    ["status", "binding", "id"],
  ),
  page(
    "/tools",
    lazyRouteComponent(() => import("../pages/tools/tools-page.tsx"), "ToolsPage"),
    ["view", "q", "channel", "name"],
  ),
  page(
    "/traces/$id",
    lazyRouteComponent(() => import("../pages/traces/trace-page.tsx"), "TracePage"),
  ),
  page(
    "/plugins",
    lazyRouteComponent(() => import("../pages/plugins/plugins-page.tsx"), "PluginsPage"),
    ["view", "q"],
  ),
  page(
    "/plugins/install",
    lazyRouteComponent(() => import("../pages/plugins/install-page.tsx"), "InstallPage"),
    ["source"],
  ),
  page(
    "/plugins/$id",
    lazyRouteComponent(() => import("../pages/plugins/package-page.tsx"), "PackagePage"),
    ["view"],
  ),
  page(
    "/upgrades/$id",
    lazyRouteComponent(() => import("../pages/plugins/upgrade-page.tsx"), "UpgradePage"),
  ),
  page(
    "/bindings",
    lazyRouteComponent(() => import("../pages/bindings/bindings-page.tsx"), "BindingsPage"),
    ["kind", "package", "q"],
  ),
  page(
    "/bindings/new",
    lazyRouteComponent(() => import("../pages/bindings/new-binding-page.tsx"), "NewBindingPage"),
    ["package", "export"],
  ),
  page(
    "/bindings/$id",
    lazyRouteComponent(() => import("../pages/bindings/binding-page.tsx"), "BindingPage"),
    ["view"],
  ),
  page(
    "/secrets",
    lazyRouteComponent(() => import("../pages/secrets/secrets-page.tsx"), "SecretsPage"),
  ),
  page(
    "/marketplace",
    lazyRouteComponent(() => import("../pages/marketplace/marketplace-page.tsx"), "MarketplacePage"),
    ["q"],
  ),
  page(
    "/marketplace/$id",
    lazyRouteComponent(() => import("../pages/marketplace/card-page.tsx"), "CardPage"),
  ),
  page(
    "/settings",
    lazyRouteComponent(() => import("../pages/settings/settings-page.tsx"), "SettingsPage"),
    ["view"],
  ),
]);

export function createConsoleRouter() {
  return createRouter({
    routeTree: routes,
    basepath: "/console",
    parseSearch,
    stringifySearch,
    defaultPreload: "intent",
    defaultPendingComponent: ListSkeleton,
    defaultErrorComponent: ({ error, reset }) => <ErrorView error={error} onRetry={reset} />,
    scrollRestoration: true,
  });
}

declare module "@tanstack/react-router" {
  interface Register {
    router: ReturnType<typeof createConsoleRouter>;
  }
}
