import { BackplaneError } from "@backplane/contract";
import type { Route } from "./route.ts";

/** What to say about a path or a method that is not in the table; a known path names the methods it takes. */
export function createUnknownRoute(
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
    const error = new BackplaneError("route.not_found", `This path takes ${list}, not ${method}.`, {
      details: { allow: allowed },
    });
    return { error, allow: list };
  };
}
