// Draws the blocks of a tool result. Images and sounds become blobs of a listed type, so nothing that a plugin returned is
// ever a document of this origin. Every other file is a download.
import { el, formatJson } from "./dom.js";

const MEDIA = {
  image: /^image\/(png|jpeg|gif|webp)$/,
  audio: /^audio\/(mpeg|mp3|wav|x-wav|ogg|webm|mp4|aac|flac)$/,
};
const MAX_URLS = 100;
const urls = new Map();

/** Whether the block is shown without opening the card. */
export function isMedia(block) {
  return mediaOf(block) !== null;
}

export function mediaNode(block) {
  const [kind, type] = mediaOf(block);
  const node = kind === "image" ? el("img", { alt: titleOf(block) }) : el("audio", { controls: true });
  const missing = () => node.replaceWith(el("p", { class: "note" }, `${titleOf(block)} is not available`));
  node.addEventListener("error", missing);
  createUrl(block, type).then((url) => {
    node.src = url;
  }, missing);
  return el("figure", {}, node, el("figcaption", {}, downloadLink(block, titleOf(block))));
}

export function blockNode(block) {
  const { type, text, uri, name, resource } = block;
  if (type === "text") return el("pre", { tabindex: "0" }, text);
  if (type === "resource_link") return el("p", {}, link(uri, name ?? uri));
  if (block.transport === "artifact") return el("p", {}, downloadLink(block, titleOf(block)));
  if (type === "resource" && typeof resource?.text === "string")
    return el(
      "div",
      {},
      el("p", {}, el("code", {}, resource.uri)),
      el("pre", { tabindex: "0" }, resource.text),
    );
  return el("pre", { tabindex: "0" }, formatJson(block));
}

/** `[image, image/png]`, or null for a block that is not shown as a picture or a player. */
function mediaOf({ type, mimeType, data, resource, transport }) {
  const mime = String(mimeType ?? resource?.mimeType ?? "");
  const kind = type === "resource" ? mime.split("/", 1)[0] : type;
  const known = Object.hasOwn(MEDIA, kind) && MEDIA[kind].test(mime);
  return known && (transport === "artifact" || data || resource?.blob) ? [kind, mime] : null;
}

async function createUrl(block, type) {
  const known = urls.get(block.sha256 ?? block);
  if (known !== undefined) return known;
  const url = URL.createObjectURL(new Blob([await readBytes(block)], { type }));
  urls.set(block.sha256 ?? block, url);
  const [first] = urls;
  if (urls.size > MAX_URLS) {
    URL.revokeObjectURL(first[1]);
    urls.delete(first[0]);
  }
  return url;
}

async function readBytes(block) {
  if (block.transport !== "artifact")
    return Uint8Array.from(atob(block.data ?? block.resource.blob), (char) => char.charCodeAt(0));
  const response = await fetch(pathOf(block));
  if (!response.ok) throw new Error(response.statusText);
  return await response.arrayBuffer();
}

function pathOf({ invocation_id, sha256 }) {
  return `/v1/invocations/${encodeURIComponent(invocation_id)}/artifacts/${encodeURIComponent(sha256)}`;
}

function titleOf({ type, path, mimeType, resource, bytes }) {
  const size = bytes === undefined ? "" : `, ${bytes} bytes`;
  return `${resource?.uri ?? path ?? type} (${mimeType ?? resource?.mimeType ?? "file"}${size})`;
}

function downloadLink(block, title) {
  if (block.transport !== "artifact" || !block.invocation_id) return title;
  return el(
    "a",
    {
      href: pathOf(block),
      download: String(block.path ?? "file")
        .split("/")
        .at(-1),
    },
    title,
  );
}

/** A link if a browser opens the URI as a page; otherwise plain text. */
function link(uri, text) {
  if (!/^https?:\/\//i.test(uri)) return el("code", {}, `${text} ${uri}`);
  return el("a", { href: uri, target: "_blank", rel: "noopener noreferrer" }, text);
}
