/** Access of instrument plugins in the gateway's process to the gateway's models. */

export interface Cognition {
  /** Throws llm.failed, request.invalid, or request.overloaded when the quota is used up. */
  think(user: CognitionUser, prompt: string, max_tokens: number): Promise<string>;
  embed(user: CognitionUser, text: string): Promise<readonly number[]>;
}

/** The binding on whose behalf a plugin uses a model. */
export interface CognitionUser {
  org_id: string;
  project_id: string | null;
  binding_id: string;
  plugin_id: string;
}
