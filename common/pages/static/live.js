// Keeps the part of a page that is marked data-live up to date, without loading the page again.
// Pages work without this script: it does nothing that a click on "Look again" does not do.
"use strict";

const live = document.querySelector("[data-live]");

// What is as before stays, and a status keeps its element: so it is read out when it changes, once.
function renew(shown, fresh) {
  const [before, after] = [[...shown.children], [...fresh.children]];
  if (before.length !== after.length) {
    shown.replaceChildren(...fresh.childNodes);
    return;
  }
  before.forEach((old, index) => {
    if (old.outerHTML === after[index].outerHTML) {
      return;
    }
    if (old.getAttribute("role") === "status") {
      old.replaceChildren(...after[index].childNodes);
    } else {
      old.replaceWith(after[index]);
    }
  });
}

async function refresh() {
  // A reader who has the keyboard in it, or has opened details, keeps what is there.
  const read = live.contains(document.activeElement) || live.querySelector("details[open]");
  if (!read && !document.hidden) {
    try {
      const answer = await fetch(live.dataset.from || location.href, { credentials: "same-origin" });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const next = page.querySelector("[data-live]");
      document.body.toggleAttribute("data-lost", !answer.ok);
      if (answer.ok && next?.id !== live.id) {
        location.reload(); // what was waited for has come
        return;
      }
      if (answer.ok && !live.dataset.from) {
        document.title = page.title;
        renew(live, next);
      }
    } catch {
      document.body.setAttribute("data-lost", ""); // the command has ended: the style says so
    }
  }
  setTimeout(refresh, 1000 * Number(live.dataset.live));
}

if (live) {
  setTimeout(refresh, 1000 * Number(live.dataset.live));
}
