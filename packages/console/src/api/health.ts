/** The data that the checks of the health page read. Health has no events, so the queries poll. */
import type { Client } from "@backplane/client";
import { WHOLE_PACKAGE } from "@backplane/contract";
import { queryOptions } from "@tanstack/react-query";
import { nullIfMissing } from "./bindings.ts";
import { listAllPages } from "./paged-query.ts";

const POLL_MS = 30_000;
/** How long the health check of a plugin may take. */
const CHECK_MS = 3_000;

export const healthQueries = {
  plugins: (client: Client) =>
    queryOptions({
      queryKey: ["plugins", "health"],
      queryFn: () => client.plugins.health({ timeout_ms: CHECK_MS }),
      refetchInterval: POLL_MS,
    }),
  /** With `probe`, stopped instruments are started for the check. */
  instruments: (client: Client, probe: boolean) =>
    queryOptions({
      queryKey: ["plugins", "instruments", probe],
      queryFn: () => client.instruments.health(CHECK_MS, { probe }),
      refetchInterval: POLL_MS,
    }),
  /** The tools that each server and tool folder has described; null if it has not described anything yet. */
  definitions: (client: Client) =>
    queryOptions({
      queryKey: ["bindings", "all-definitions"],
      queryFn: async () => {
        const all = await listAllPages((page) => client.bindings.list({ kind: "tool", ...page, limit: 200 }));
        const whole_packages = all.filter(
          ({ export_id, status }) => export_id === WHOLE_PACKAGE && status === "active",
        );
        return await Promise.all(
          whole_packages.map(async ({ binding_id, package_id }) => ({
            binding_id,
            package_id,
            definitions: await nullIfMissing(client.bindings.definitions(binding_id)),
          })),
        );
      },
      refetchInterval: POLL_MS,
    }),
  deadDeliveries: (client: Client) =>
    queryOptions({
      queryKey: ["deliveries", "dead"],
      queryFn: async () => (await client.deliveries.list({ status: "dead", limit: 100 })).items,
      refetchInterval: POLL_MS,
    }),
};
