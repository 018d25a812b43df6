/**
 * The blocks of a tool result or message. Only images and audio of the listed types are rendered, from their bytes, so
 * nothing that a plugin returned becomes a document of this origin. Every other stored file is a download.
 */
import { codeOf, isObject, type Json, type JsonObject } from "@backplane/contract";
import { useEffect, useState } from "react";
import { useClient } from "../../api/services.ts";
import { Icon } from "../../parts/layout/icon.tsx";
import { ErrorView } from "../../parts/notices/error-view.tsx";
import { bytesText } from "../../parts/text/bytes-text.ts";
import { CodeBlock, JsonView } from "../../parts/values/json-view.tsx";
import { fileOf } from "./attachments.ts";
import { MarkdownView } from "./markdown-view.tsx";
import { safeHref } from "./parse-markdown.ts";
import styles from "./sessions.module.css";

const IMAGE = /^image\/(?:png|jpeg|gif|webp)$/;
const AUDIO = /^audio\/(?:mpeg|mp3|wav|x-wav|ogg|webm|mp4|aac|flac)$/;

export function ContentBlocks({ blocks, label }: { blocks: readonly JsonObject[]; label: string }) {
  return blocks.map((block, index) => (
    // biome-ignore lint/suspicious/noArrayIndexKey: stored blocks never move
    <ContentBlockView key={index} block={block} label={`${label} ${index + 1}`} />
  ));
}

/** Whether a block is an image or audio, which is shown even while its card is closed. */
export function isMediaBlock(block: JsonObject): boolean {
  return mediaOf(block) !== null;
}

function ContentBlockView({ block, label }: { block: JsonObject; label: string }) {
  const { type, text, resource } = block;
  if (type === "text") return <CodeBlock text={textOr(text, "")} label={label} />;
  if (type === "markdown") return <MarkdownView text={textOr(text, "")} />;
  if (mediaOf(block) !== null) return <Media block={block} label={label} />;
  if (type === "resource_link") return <ResourceLink block={block} />;
  if (block.transport === "artifact") return <StoredFile block={block} />;
  if (isObject(resource) && typeof resource.text === "string")
    return <CodeBlock text={resource.text} label={`${label}: ${fileOf(block).name}`} />;
  return <JsonView value={block} label={label} />;
}

/** The files of a message: images, audio players, and any other file by name and size. */
export function Attachments({ blocks }: { blocks: readonly JsonObject[] }) {
  if (blocks.length === 0) return null;
  return (
    <div className={styles.attachments}>
      {blocks.map((block, index) =>
        mediaOf(block) === null ? (
          // biome-ignore lint/suspicious/noArrayIndexKey: stored blocks never move
          <AttachedFile key={index} block={block} />
        ) : (
          // biome-ignore lint/suspicious/noArrayIndexKey: stored blocks never move
          <Media key={index} block={block} label={`Attachment ${index + 1}`} />
        ),
      )}
    </div>
  );
}

function AttachedFile({ block }: { block: JsonObject }) {
  const { name, mime, bytes } = fileOf(block);
  return (
    <span className={styles.file}>
      <Icon name="file" size={16} />
      <span className={styles.fileName}>{name}</span>
      <span className={styles.note}>{bytes === null ? mime : bytesText(bytes)}</span>
    </span>
  );
}

type MediaKind = "image" | "audio";

function mediaOf(block: JsonObject): { kind: MediaKind; mime: string; base64: string } | null {
  const { data, resource } = block;
  const inner = isObject(resource) ? resource : {};
  const mime = textOr(block.mimeType, textOr(inner.mimeType, ""));
  const kind = IMAGE.test(mime) ? "image" : AUDIO.test(mime) ? "audio" : null;
  const base64 = textOr(data, textOr(inner.blob, ""));
  if (kind === null || (base64 === "" && block.transport !== "artifact")) return null;
  return { kind, mime, base64 };
}

/** An image or audio. Bytes that were too large for the tape are loaded. */
function Media({ block, label }: { block: JsonObject; label: string }) {
  const { kind, mime, base64 } = mediaOf(block)!;
  const stored = useStoredUrl(block, mime, base64 === "");
  // The content security policy allows audio only from blob: URLs.
  const inline = useInlineUrl(base64, mime, kind === "audio");
  const [large, setLarge] = useState(false);
  if (isNoLongerStored(stored.failure)) return <p className={styles.note}>The file is no longer stored.</p>;
  if (stored.failure !== null) return <ErrorView error={stored.failure} onRetry={stored.retry} />;
  const url = base64 === "" ? stored.url : kind === "audio" ? inline : `data:${mime};base64,${base64}`;
  if (url === null) return <span className={styles.loading} />;
  if (kind === "audio")
    // biome-ignore lint/a11y/useMediaCaption: the audio comes from a tool, without captions
    return <audio controls src={url} aria-label={`${label}, ${mime}`} />;
  return (
    <button
      type="button"
      className={styles.imageButton}
      aria-label={large ? "Show smaller" : "Show larger"}
      onClick={() => setLarge(!large)}
    >
      <img className={styles.image} data-large={large ? "" : undefined} alt={`${label}, ${mime}`} src={url} />
    </button>
  );
}

function useInlineUrl(base64: string, mime: string, wanted: boolean): string | null {
  const [url, setUrl] = useState<string | null>(null);
  useEffect(() => {
    if (!wanted || base64 === "") return undefined;
    const bytes = Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
    const created = URL.createObjectURL(new Blob([bytes], { type: mime }));
    setUrl(created);
    return () => URL.revokeObjectURL(created);
  }, [base64, mime, wanted]);
  return url;
}

function useStoredUrl(
  block: JsonObject,
  mime: string,
  wanted: boolean,
): { url: string | null; failure: unknown; retry: () => void } {
  const client = useClient();
  const invocation_id = textOr(block.invocation_id, "");
  const sha256 = textOr(block.sha256, "");
  const [url, setUrl] = useState<string | null>(null);
  const [failure, setFailure] = useState<unknown>(null);
  useEffect(() => {
    // A retry clears the failure, which runs this effect again.
    if (!wanted || failure !== null) return undefined;
    const stop = new AbortController();
    let created: string | null = null;
    const load = async () => {
      const response = await client.invocations.artifact(invocation_id, sha256, { signal: stop.signal });
      const bytes = await response.arrayBuffer();
      if (stop.signal.aborted) return;
      created = URL.createObjectURL(new Blob([bytes], { type: mime }));
      setUrl(created);
    };
    load().catch((error: unknown) => {
      if (!stop.signal.aborted) setFailure(error);
    });
    return () => {
      stop.abort();
      if (created !== null) URL.revokeObjectURL(created);
    };
  }, [client, invocation_id, sha256, mime, wanted, failure]);
  return { url, failure, retry: () => setFailure(null) };
}

/** Whether the gateway answered that it does not have the file. Any other failure may be temporary. */
export function isNoLongerStored(failure: unknown): boolean {
  const code = codeOf(failure);
  return code === "artifact.not_found" || code === "invocation.not_found";
}

function StoredFile({ block }: { block: JsonObject }) {
  const { name, mime } = fileOf(block);
  const path = `/v1/invocations/${encodeURIComponent(textOr(block.invocation_id, ""))}/artifacts/${encodeURIComponent(textOr(block.sha256, ""))}`;
  return (
    <a className={styles.file} href={path} download={name}>
      <Icon name="download" size={16} />
      <span className={styles.fileName}>{name}</span>
      <span className={styles.note}>{typeof block.bytes === "number" ? bytesText(block.bytes) : mime}</span>
    </a>
  );
}

function ResourceLink({ block }: { block: JsonObject }) {
  const uri = textOr(block.uri, "");
  const name = textOr(block.name, uri);
  const href = safeHref(uri);
  if (href === null || !href.startsWith("http"))
    return (
      <p className={styles.note}>
        {name} <code>{uri}</code>
      </p>
    );
  return (
    <p className={styles.note}>
      <a href={href} target="_blank" rel="noopener noreferrer">
        {name}
      </a>
    </p>
  );
}

function textOr(value: Json | undefined, otherwise: string): string {
  return typeof value === "string" ? value : otherwise;
}
