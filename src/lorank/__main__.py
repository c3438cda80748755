"""``python -m lorank`` is ``lorank``, also where scripts are not on the path."""

from .cli.app import main

if __name__ == "__main__":
    main()
