/** The models of the host, for instrument plugins that run in the gateway. */

export interface Cognition {
  /** Throws llm.failed, request.invalid, or request.overloaded over the quota. */
  think(who: CognitionUser, prompt: string, max_tokens: number): Promise<string>;
  embed(who: CognitionUser, text: string): Promise<readonly number[]>;
}

/** On whose behalf a plugin asks. */
export interface CognitionUser {
  org_id: string;
  project_id: string | null;
  binding_id: string;
  plugin_id: string;
}
