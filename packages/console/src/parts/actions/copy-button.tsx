import { ActionIcon } from "@mantine/core";
import { useEffect, useState } from "react";
import { Icon } from "../layout/icon.tsx";
import { useToast } from "./toast.tsx";

const SHOWN_MS = 1_500;

export function CopyButton({ text, label }: { text: string; label: string }) {
  const [copied, setCopied] = useState(false);
  const toast = useToast();
  useEffect(() => {
    if (!copied) return undefined;
    const timer = setTimeout(() => setCopied(false), SHOWN_MS);
    return () => clearTimeout(timer);
  }, [copied]);
  const copy = async () => {
    try {
      // Only a page on localhost or with TLS may use the clipboard.
      await navigator.clipboard.writeText(text);
      setCopied(true);
    } catch {
      toast.show({ tone: "bad", title: "The browser did not allow copying.", detail: text });
    }
  };
  return (
    <ActionIcon
      variant="subtle"
      color="gray"
      size="sm"
      aria-label={copied ? "Copied" : label}
      title={label}
      onClick={() => void copy()}
    >
      <Icon name={copied ? "check" : "copy"} size={14} />
    </ActionIcon>
  );
}
