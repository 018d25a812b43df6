import type { Client } from "@backplane/client";
import { queryOptions } from "@tanstack/react-query";

export const catalogQueries = {
  list: (client: Client, options: { all?: boolean; channel?: string } = {}) =>
    queryOptions({ queryKey: ["catalog", "list", options], queryFn: () => client.catalog.list(options) }),
  /** All tools that claim a name. */
  named: (client: Client, name: string) =>
    queryOptions({ queryKey: ["catalog", "named", name], queryFn: () => client.catalog.get(name) }),
};
