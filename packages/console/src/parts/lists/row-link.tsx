import { createLink } from "@tanstack/react-router";
import type { AnchorHTMLAttributes, ReactNode, Ref } from "react";
import styles from "../styles/parts.module.css";

interface PlainRowLinkProps extends AnchorHTMLAttributes<HTMLAnchorElement> {
  ref?: Ref<HTMLAnchorElement>;
  children?: ReactNode;
}

function PlainRowLink({ ref, children, ...props }: PlainRowLinkProps) {
  return (
    <a {...props} ref={ref} className={styles.rowLink} data-row-link="">
      {children}
    </a>
  );
}

/** The link of a row, in its first column. `j` and `k` move between these links. */
export const RowLink = createLink(PlainRowLink);
