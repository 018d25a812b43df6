import { BackplaneError } from "@backplane/contract";
import type { Route } from "../http/route.ts";

/** The error for a path or method that is not in the table. For a known path it lists the allowed methods. */
export function createUnknownRouteErrors(
  routes: readonly Route[],
): (method: string, url: string) => { error: BackplaneError; allow: string | null } {
  const patterns = routes.map((route) => ({
    method: route.method,
    shape: new RegExp(`^${route.path.replaceAll(".", "\\.").replace(/\{\w+\}/g, "[^/]+")}$`),
  }));
  return (method, url) => {
    const path = url.split("?", 1)[0]!;
    const allowed = [
      ...new Set(patterns.filter(({ shape }) => shape.test(path)).map((known) => known.method as string)),
    ];
    if (allowed.length === 0) return { error: new BackplaneError("route.not_found"), allow: null };
    const list = allowed.join(", ");
    const error = new BackplaneError("route.not_found", `This path allows ${list}, not ${method}.`, {
      details: { allow: allowed },
    });
    return { error, allow: list };
  };
}
