// Keeps an open page up to date. Pages work without this script: it does nothing that a click on
// "Look again" does not do.
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

// A link was followed or a form sent, and its answer is on its way: to load this page again would
// end that. A download leaves no page, and is over by then.
let leaving = false;
addEventListener("beforeunload", () => {
  leaving = true;
  setTimeout(() => {
    leaving = false;
  }, 30000);
});

// An id names the state: another one means that the whole page is another. Only what somebody has
// begun to type is not taken away; that page says so.
function change() {
  if (leaving) {
    return;
  }
  if ([...document.querySelectorAll("input[type=text]")].some((each) => each.value)) {
    document.body.setAttribute("data-changed", "");
  } else {
    location.reload();
  }
}

async function refresh() {
  if (!document.hidden) {
    try {
      const place = live.dataset.from || location.href;
      const answer = await fetch(place, { credentials: "same-origin" });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const next = page.querySelector("[data-live]");
      const failed = !answer.ok && next?.id !== live.id;
      document.body.toggleAttribute("data-lost", failed);
      // A reader who has the keyboard in it, or has opened details, keeps what is there.
      const read = live.contains(document.activeElement) || live.querySelector("details[open]");
      if (answer.ok && next?.id !== live.id) {
        change();
      } else if (!failed && !live.dataset.from && !read) {
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

// The bare address leads a browser that has logged in to its page. What is kept is a path, which
// opens nothing without the cookie, and no other port of this machine can read it. But whoever had
// this port before may have left anything there: what is no such path is not followed.
const own = /^\/[0-9a-f]{32}\//.exec(location.pathname);
const kept = /^\/[0-9a-f]{32}\/$/.exec(localStorage.getItem("place") || "");
if (own && document.querySelector("nav")) {
  localStorage.setItem("place", own[0]);
} else if (kept && ["/", "/login"].includes(location.pathname)) {
  location.replace(kept[0]);
}
