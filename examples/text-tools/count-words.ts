/** Shared by the tools; a file outside tools/ is not a tool. */
export function countWords(text: string): number {
  return text.split(/\s+/).filter((word) => word !== "").length;
}
