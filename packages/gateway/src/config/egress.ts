/** The egress section of the configuration. The grant of a call decides which destinations it may reach. */
import { definedFields } from "@backplane/contract";
import type { RunnerOptions } from "@backplane/runner";
import { z } from "zod";

const DESTINATION = /^(?:[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\]):(\d{1,5}|\*)$/;

const DestinationSchema = z.string().refine((text) => {
  const port = DESTINATION.exec(text)?.[1] ?? "0";
  return port === "*" || (Number(port) >= 1 && Number(port) <= 65_535);
}, "must be a host and a port, such as ollama.lan:11434, or * for every port");

const count = (max: number) => z.int().min(1).max(max).optional();

export const EgressSchema = z
  .strictObject({
    /** Private destinations that calls may reach when their grant includes the host. */
    allow_private: z.array(DestinationSchema).default([]),
    /** For one invocation; calls in the same process share its connections. */
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

/** `gateway` returns the gateway's own URL and certificate, or null before the gateway listens. */
export function toEgressOptions(
  { allow_private, limits }: EgressConfig,
  gateway: NonNullable<NonNullable<RunnerOptions["egress"]>["gateway"]>,
): Required<Pick<RunnerOptions, "egress">> {
  return {
    egress: {
      operator_allows: allow_private,
      limits: definedFields(limits),
      gateway,
    },
  };
}
