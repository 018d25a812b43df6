/**
 * Wraps the platform's fetch for a vendor's SDK. Redirects are not followed: the SDK's credential belongs to
 * the configured host, and some SDKs send it in a header that a redirect would forward. The body of an error
 * is truncated, because the SDK reads it whole.
 */
import { LlmCallError } from "./llm-failure.ts";

const ERROR_BYTES = 64 * 1024;

type Fetch = typeof globalThis.fetch;

const vendorFetch: Fetch = async (input, init) => {
  const response = await fetch(input, { ...init, redirect: "manual" });
  const { status, statusText, headers } = response;
  if (status >= 300 && status < 400) {
    await response.body?.cancel();
    throw new LlmCallError({
      kind: "other",
      message: `The provider's address responds with a redirect (HTTP ${status}), which is not followed. Set base_url to the API's address.`,
    });
  }
  if (response.ok) return response;
  return new Response(await firstBytes(response.body, ERROR_BYTES), { status, statusText, headers });
};

/** Options for every client of a vendor's SDK. */
export const VENDOR_TRANSPORT: { fetch: Fetch } = { fetch: vendorFetch };

async function firstBytes(body: ReadableStream<Uint8Array> | null, max_bytes: number): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  const reader = body?.getReader();
  while (reader !== undefined && size < max_bytes) {
    const { done, value } = await reader.read();
    if (done) break;
    chunks.push(value);
    size += value.length;
  }
  await reader?.cancel();
  const first_bytes = new Uint8Array(size);
  let at = 0;
  for (const chunk of chunks) {
    first_bytes.set(chunk, at);
    at += chunk.length;
  }
  return first_bytes.slice(0, max_bytes);
}
