/** Embeddings of several texts in one request. */
import type { Embeddings, EmbedRequest } from "@backplane/sdk/kernel";
import type { ConnectOpenAi } from "./client.ts";

export async function embedTexts(
  connect: ConnectOpenAi,
  { model, texts, signal }: EmbedRequest,
): Promise<Embeddings> {
  const client = await connect();
  const { data, usage } = await client.embeddings.create(
    { model, input: [...texts], encoding_format: "float" },
    { signal: signal as AbortSignal },
  );
  // Compatible servers need not keep the order of the texts.
  const vectors = data.toSorted((a, b) => a.index - b.index).map(({ embedding }) => embedding);
  return { vectors, usage: { input_other: usage?.prompt_tokens ?? 0 } };
}
