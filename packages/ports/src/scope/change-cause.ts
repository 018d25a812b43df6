import type { Caller, TraceIds } from "./scope.ts";

/** The cause of a change. The events of the change carry the run and trace, and reach no hook if a hook caused it. */
export interface ChangeCause extends Pick<TraceIds, "run_id" | "trace_id"> {
  from_hook?: boolean;
}

export function causeOf({ delegation }: Pick<Caller, "delegation">): ChangeCause {
  if (delegation === undefined) return {};
  const { run_id, trace_id } = delegation.ids ?? {};
  return {
    ...(run_id === undefined ? {} : { run_id }),
    ...(trace_id === undefined ? {} : { trace_id }),
    from_hook: delegation.delivery_id != null,
  };
}
