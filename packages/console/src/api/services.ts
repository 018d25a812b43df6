/** Services that every page uses: the typed client, the query cache and the live connection of this tab. */
import { type Client, createClient } from "@backplane/client";
import { codeOf } from "@backplane/contract";
import { MutationCache, QueryCache, type QueryClient } from "@tanstack/react-query";
import { createContext, useContext } from "react";
import { createLiveConnection, type LiveConnection } from "./live.ts";
import { ConsoleQueryClient } from "./query-client.ts";
import { withResponseTimeout } from "./response-timeout.ts";

export interface Services {
  client: Client;
  queries: QueryClient;
  live: LiveConnection;
}

export function createServices(origin = location.origin): Services {
  const client = createClient({
    url: origin,
    fetch: withResponseTimeout((input, init) => fetch(input, init)),
  });
  const onError = (error: unknown) => {
    if (codeOf(error)?.startsWith("auth.") === true) live.recheck();
  };
  const queries = new ConsoleQueryClient({
    queryCache: new QueryCache({ onError }),
    mutationCache: new MutationCache({ onError }),
    defaultOptions: {
      // The live connection refreshes the queries whose data changed, and all queries after it has reconnected.
      queries: { networkMode: "always", staleTime: 30_000, retry: false, refetchOnWindowFocus: false },
      mutations: { networkMode: "always" },
    },
  });
  const live: LiveConnection = createLiveConnection(queries);
  return { client, queries, live };
}

export const ServicesContext = createContext<Services | null>(null);

export function useServices(): Services {
  const services = useContext(ServicesContext);
  if (services === null) throw new Error("useServices must be called inside a ServicesContext.");
  return services;
}

export function useClient(): Client {
  return useServices().client;
}
