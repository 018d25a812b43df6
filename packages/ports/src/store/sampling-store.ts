/** Counts the uses of the gateway's model by MCP servers; the rows are deleted together with their binding. */
export interface SamplingStore {
  /**
   * Counts a use if fewer than `count` happened within `window_ms`. Resolves to false if the limit is reached or the
   * binding does not exist.
   */
  countUse(
    org_id: string,
    binding_id: string,
    count: number,
    window_ms: number,
    now: number,
  ): Promise<boolean>;
}
