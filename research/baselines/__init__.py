"""What TGAT is compared with, each as a method that is fitted to a task of link prediction and then scores candidates.

`rules` and `hand_made` (on `meetings` and activity) are what a model has to beat at least. The paper's own: `temporal`
trains graph networks over neighbourhoods in the past, TGAT among them; `autoencoder` and `skipgram` make one vector a
node from the training graph, and `static` scores pairs by them. `rows` lists those of the paper.
"""
