/** What the operator says about the way out of the sandbox; who may go where is in the grants. */
import type { EgressLimits, RunnerOptions } from "@backplane/runner";
import { z } from "zod";

const PLACE = /^(?:[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\]):(\d{1,5}|\*)$/;

const PlaceSchema = z.string().refine((text) => {
  const port = PLACE.exec(text)?.[1] ?? "0";
  return port === "*" || (Number(port) >= 1 && Number(port) <= 65_535);
}, "write a host and its port, such as ollama.lan:11434, or * for every port of it");

const count = (most: number) => z.int().min(1).max(most).optional();

export const EgressSchema = z
  .strictObject({
    /** Places that are no public addresses and may be reached all the same, by whoever is granted their name. */
    allow_private: z.array(PlaceSchema).default([]),
    /** Of one invocation; calls on one process share its connections. */
    limits: z
      .strictObject({
        connections: count(10_000),
        total_connections: count(10_000_000),
        bytes_out: count(2 ** 50),
        bytes_in: count(2 ** 50),
      })
      .prefault({}),
  })
  .prefault({});

export type EgressConfig = z.infer<typeof EgressSchema>;

/** `gateway`: where it is, once it listens. */
export function egressOf(
  { allow_private, limits }: EgressConfig,
  gateway: NonNullable<NonNullable<RunnerOptions["egress"]>["gateway"]>,
): Required<Pick<RunnerOptions, "egress">> {
  const given = Object.entries(limits).filter(([, value]) => value !== undefined);
  return {
    egress: {
      operator_allows: allow_private,
      limits: Object.fromEntries(given) as Partial<EgressLimits>,
      gateway,
    },
  };
}
