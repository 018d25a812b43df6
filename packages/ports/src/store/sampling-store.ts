/** How often servers of bindings had the gateway's model; goes with the binding. */
export interface SamplingStore {
  /** True, and counted: fewer than `count` were within `window_ms` before now. False: that many were, or it is not bound. */
  take(org_id: string, binding_id: string, count: number, window_ms: number, now: number): Promise<boolean>;
}
