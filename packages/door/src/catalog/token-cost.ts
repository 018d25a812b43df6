/**
 * What a tool costs in every model call (tools.token-cost): the characters of its name, description and schema as JSON,
 * four to a token, rounded up. Tokenizers differ by a fifth or so; the same estimate everywhere lets tools be compared.
 */
import type { LlmTool } from "@backplane/contract";

const CHARACTERS_PER_TOKEN = 4;

export function tokenCost({ name, description, parameters }: LlmTool): number {
  return Math.ceil(JSON.stringify({ name, description, parameters }).length / CHARACTERS_PER_TOKEN);
}
