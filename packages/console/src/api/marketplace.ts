import type { Client } from "@backplane/client";
import { queryOptions } from "@tanstack/react-query";

export const marketplaceQueries = {
  list: (client: Client, search: string | undefined) =>
    queryOptions({
      queryKey: ["marketplace", "list", search ?? ""],
      queryFn: () => client.marketplace.list(search),
    }),
  detail: (client: Client, id: string) =>
    queryOptions({ queryKey: ["marketplace", "detail", id], queryFn: () => client.marketplace.get(id) }),
  /** The gateway sends the text to the public registry that is configured. */
  servers: (client: Client, search: string) =>
    queryOptions({
      queryKey: ["marketplace", "servers", search],
      queryFn: () => client.marketplace.searchServers(search),
    }),
};
